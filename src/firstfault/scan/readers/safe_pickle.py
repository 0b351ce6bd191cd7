"""Loads a pickle that may only hold plain data: no class, no function, no object of any kind is ever looked up.

PyTorch writes flight-recorder dumps as pickles of dicts, lists and scalars. Before such a file goes to the unpickler,
its instructions are walked through: only those that make plain data are let pass, and none that points at a place in
the memo which the file is too short to have filled. So nothing can be called, and no few bytes can ask for gigabytes.
"""

from __future__ import annotations

import io
import pickle
import re
from typing import Any, NoReturn

from firstfault.errors import InputError, LimitError

__all__ = ["is_plain_pickle", "is_whole_pickle", "load_plain"]

# A pickle of protocol 2 to 5 that begins with a dict, a list or a frame around one. torch writes protocol 2.
_HEADS = (b"\x80\x02}", b"\x80\x02]", b"\x80\x03}", b"\x80\x03]", b"\x80\x04", b"\x80\x05")
_ERRORS = (
    pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, TypeError, ValueError, ImportError,
    OverflowError, RecursionError, UnicodeDecodeError,
)  # fmt: skip
MAX_LONG = 16
MAX_CHANCE = 3

# Instructions of fixed length that make plain data, in runs (possessive: nothing is kept for going back).
_PLAIN_RUN = re.compile(
    rb"(?:"
    rb"[}\])(usaetN\x85-\x89\x8f-\x91\x94]"  # containers, None, True, False, memoize
    rb"|[\x80Kqh].|M..|[Jj]....|G.{8}|\x95.{8}"  # protocol, small integers, memo by byte, integers, float, frame
    rb"|\x8a(?:" + b"|".join(bytes([length]) + b"." * length for length in range(MAX_LONG + 1)) + rb")"  # long integers
    rb")*+",
    re.DOTALL,
)
# Instructions with a length before their data: opcode -> bytes of the length.
_COUNTED = {
    ord("X"): 4, 0x8C: 1, 0x8D: 8,  # text
    ord("U"): 1, ord("T"): 4, ord("C"): 1, ord("B"): 4, 0x8E: 8,  # bytes
}  # fmt: skip
RUNS_CODE = frozenset(
    {"GLOBAL", "INST", "STACK_GLOBAL", "REDUCE", "BUILD", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BINPERSID", "PERSID"}
)
_LONG_PUT, _STOP = ord("r"), ord(".")
_NAMED_GLOBAL = re.compile(rb"[ci]([^\n]{0,100})\n([^\n]{0,100})\n")


def is_plain_pickle(head: bytes) -> bool:
    """Say whether the bytes begin like a pickle of a container."""
    return head.startswith(_HEADS)


def is_whole_pickle(data: bytes) -> bool:
    """Say whether the bytes are the instructions of a pickle of any protocol, from the first to the last byte.

    Nothing is executed. Two or three instructions may be a short text that happens to read as such.
    """
    import pickletools  # noqa: PLC0415 - few sources end like a pickle

    count = end = 0
    try:
        for _, _, position in pickletools.genops(data):
            count, end = count + 1, position or 0
    except (ValueError, OverflowError):
        return False
    return count > MAX_CHANCE and end == len(data) - 1


def load_plain(data: bytes, source_name: str) -> Any:
    """Return the plain data of a pickle.

    Args:
        data: The whole pickle.
        source_name: For messages.

    Raises:
        InputError: It holds anything but plain data, or is damaged.
        LimitError: It asks for more memory than its size justifies.
    """
    _check(data, source_name)
    try:
        return _PlainUnpickler(io.BytesIO(data), encoding="utf-8", errors="replace").load()
    except (*_ERRORS, MemoryError) as error:
        raise _damaged(source_name, str(error)) from error


class _PlainUnpickler(pickle.Unpickler):
    """The second lock: it would refuse a global even if the walk had let one pass."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"{module_name}.{global_name} is not plain data")


def _damaged(source_name: str, reason: str) -> InputError:
    return InputError(f"{source_name}: not a readable pickle: {reason[:200]}", "write the dump again")


def _check(data: bytes, source_name: str) -> None:
    """Walk through the instructions.

    Raises:
        InputError: One of them does something else than making plain data.
        LimitError: One of them wants a place in the memo that would need gigabytes.
    """
    position = 0
    while position < len(data):
        run = _PLAIN_RUN.match(data, position)
        position = run.end() if run is not None else position
        if position >= len(data):
            break
        opcode = data[position]
        if opcode == _STOP:
            return
        if opcode == _LONG_PUT:
            if int.from_bytes(data[position + 1 : position + 5], "little") > len(data):
                raise LimitError(f"{source_name}: the pickle asks for more memory than its size justifies; refused")
            position += 5
        elif (width := _COUNTED.get(opcode)) is not None:
            position += 1 + width + int.from_bytes(data[position + 1 : position + 1 + width], "little")
        else:
            raise _refusal(data, position, source_name)
    raise _damaged(source_name, "it ends too early")


def _first_of_code(data: bytes) -> tuple[str, int] | None:
    """Return name and place of the first instruction that could run code, for pickles of the textual protocol 0."""
    import pickletools  # noqa: PLC0415 - only for what is refused

    try:
        for known, _, position in pickletools.genops(data):
            if known.name in RUNS_CODE:
                return known.name, position or 0
    except (ValueError, OverflowError):
        pass
    return None


def _refusal(data: bytes, position: int, source_name: str) -> InputError:
    """Return what is wrong with an instruction: it names code, it is another, or the pickle is damaged."""
    import pickletools  # noqa: PLC0415 - only for the name of an opcode

    code = data[position : position + 1].decode("latin-1")
    name = next((known.name for known in pickletools.opcodes if known.code == code), "")
    if name not in RUNS_CODE:
        later = _first_of_code(data)
        if later is None:
            return _damaged(source_name, f"instruction {name or hex(ord(code))} at byte {position}")
        name, position = later
    named = _NAMED_GLOBAL.match(data, position)
    what = f"load {b'.'.join(named.groups()).decode('utf-8', 'replace')}" if named else f"do {name}"
    return InputError(
        f"{source_name}: the pickle wants to {what} at byte {position}, which could run code; refused",
        "a flight-recorder dump holds plain data only; find out where this file comes from",
    )
