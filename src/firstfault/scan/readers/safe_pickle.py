"""Loads a pickle that may only hold plain data: no class, no function, no object of any kind is ever looked up.

PyTorch writes flight-recorder dumps as pickles of dicts, lists and scalars. A pickle that wants more is refused by
name; one that asks for absurd amounts of memory runs into a limit instead of taking the machine down.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from firstfault.errors import InputError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_plain_pickle", "load_plain"]

# A pickle of protocol 2 to 5 that begins with a dict, a list or a frame around one. torch writes protocol 2.
_HEADS = (b"\x80\x02}", b"\x80\x02]", b"\x80\x03}", b"\x80\x03]", b"\x80\x04", b"\x80\x05")
# Memory that loading may take beyond what the process has: some for any pickle, and so much for each of its bytes.
HEADROOM = 512 * 1024 * 1024
EXPANSION = 64
_ERRORS = (
    pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, TypeError, ValueError, ImportError,
    OverflowError, RecursionError, UnicodeDecodeError,
)  # fmt: skip


def is_plain_pickle(head: bytes) -> bool:
    """Say whether the bytes begin like a pickle of a container."""
    return head.startswith(_HEADS)


class _PlainUnpickler(pickle.Unpickler):
    """Refuses every global and every persistent id."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise InputError(
            f"the pickle wants to load {module_name[:100]}.{global_name[:100]}, which could run code; refused",
            "a flight-recorder dump holds plain data only; find out where this file comes from",
        )

    def persistent_load(self, pid: Any) -> NoReturn:
        del pid
        raise InputError("the pickle refers to objects outside of itself; refused")


def load_plain(data: bytes, source_name: str) -> Any:
    """Return the plain data of a pickle.

    Args:
        data: The whole pickle.
        source_name: For messages.

    Raises:
        InputError: It holds anything but plain data, or is damaged.
        LimitError: It asks for more memory than its size justifies.
    """
    try:
        with _memory_limit(HEADROOM + EXPANSION * len(data)):
            return _PlainUnpickler(io.BytesIO(data), encoding="utf-8", errors="replace").load()
    except InputError as error:
        raise InputError(f"{source_name}: {error.what}", error.todo) from error
    except MemoryError as error:
        raise LimitError(f"{source_name}: the pickle asks for more memory than its size justifies; refused") from error
    except _ERRORS as error:
        raise InputError(f"{source_name}: not a readable pickle: {str(error)[:200]}", "write the dump again") from error


@contextlib.contextmanager
def _memory_limit(extra: int) -> Iterator[None]:
    """Let the process grow by `extra` bytes of address space at most; where the system cannot, do nothing.

    A memo index of four bytes makes the unpickler allocate gigabytes before it can find anything wrong.
    """
    if sys.platform != "linux":
        yield
        return
    import resource  # noqa: PLC0415 - does not exist everywhere

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    wanted = size + extra
    if soft != resource.RLIM_INFINITY:
        wanted = min(wanted, soft)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
