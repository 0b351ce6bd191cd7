"""Loads a pickle that may only hold plain data: no class, no function, no object of any kind is ever looked up.

PyTorch writes flight-recorder dumps as pickles of dicts, lists and scalars. Before such a file goes to the unpickler,
its instructions are walked through: only those that make plain data are let pass, and none that points at a place in
the memo which the file is too short to have filled. So nothing can be called, and no few bytes can ask for gigabytes;
nor for hours of walking (`pickle_bombs`).
"""

from __future__ import annotations

import io
import pickle
import re
from typing import Any, NoReturn

from firstfault.errors import InputError, LimitError
from firstfault.scan.readers.pickle_bombs import check_keys, check_unfolded
from firstfault.scan.readers.pickle_code import loaded_objects

__all__ = ["load_plain"]

_ERRORS = (
    pickle.UnpicklingError, EOFError, AttributeError, IndexError, KeyError, TypeError, ValueError, ImportError,
    OverflowError, RecursionError, UnicodeDecodeError,
)  # fmt: skip
MAX_LONG = 16
# Tuples of which none holds itself: hashing them goes no deeper than the stack of any machine.
MAX_SINGLE_TUPLES = 5000

# Instructions of fixed length that make plain data, in runs (possessive: nothing is kept for going back).
_PLAIN_RUN = re.compile(
    rb"(?:"
    rb"[}\])(usaeN\x88\x89\x8f\x90\x94]"  # containers, None, True, False, memoize
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
# What can be a key and hold another: tuples, frozen sets. Behind a memo instruction, more than one may hold it.
_HASHED = frozenset(b"t\x85\x86\x87\x91")
_MEMO_NEXT = frozenset({b"\x94", b"q", b"r", b"\x80", b"\x95"})


def load_plain(data: bytes, source_name: str) -> Any:
    """Return the plain data of a pickle.

    Args:
        data: The whole pickle.
        source_name: For messages.

    Raises:
        InputError: It holds anything but plain data, or is damaged.
        LimitError: It asks for more memory or time than its size justifies.
    """
    if _check(data, source_name):
        check_keys(data, source_name)
    try:
        value = _PlainUnpickler(io.BytesIO(data), encoding="utf-8", errors="replace").load()
    except (*_ERRORS, MemoryError) as error:
        raise _damaged(source_name, str(error)) from error
    check_unfolded(value, source_name)
    return value


class _PlainUnpickler(pickle.Unpickler):
    """The second lock: it would refuse a global even if the walk had let one pass."""

    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"{module_name}.{global_name} is not plain data")


def _damaged(source_name: str, reason: str) -> InputError:
    return InputError(f"{source_name}: not a readable pickle: {reason[:200]}", "write the dump again")


def _check(data: bytes, source_name: str) -> bool:
    """Walk through the instructions; return whether their keys have to be looked at.

    Raises:
        InputError: One of them does something else than making plain data.
        LimitError: One of them wants a place in the memo that would need gigabytes.
    """
    position = tuples = 0
    shared = False
    while position < len(data):
        run = _PLAIN_RUN.match(data, position)
        position = run.end() if run is not None else position
        if position >= len(data):
            break
        opcode = data[position]
        if opcode == _STOP:
            return shared or tuples > MAX_SINGLE_TUPLES
        if opcode in _HASHED:
            tuples += 1
            position += 1
            shared = shared or data[position : position + 1] in _MEMO_NEXT
            continue
        if opcode == _LONG_PUT:
            if int.from_bytes(data[position + 1 : position + 5], "little") > len(data):
                raise LimitError(f"{source_name}: the pickle asks for more memory than its size justifies; refused")
            position += 5
        elif (width := _COUNTED.get(opcode)) is not None:
            position += 1 + width + int.from_bytes(data[position + 1 : position + 1 + width], "little")
        else:
            raise _refusal(data, position, source_name)
    raise _damaged(source_name, "it ends too early")


def _refusal(data: bytes, position: int, source_name: str) -> InputError:
    """Return what is wrong with an instruction: it names code, it is another, or the pickle is damaged."""
    import pickletools  # noqa: PLC0415 - only for the name of an opcode

    code = data[position : position + 1].decode("latin-1")
    name = next((known.name for known in pickletools.opcodes if known.code == code), "")
    # Of pickles of the textual protocol 0, instructions are unknown here long before the first that could run code.
    loaded = next(loaded_objects(data), None)
    if loaded is None and name not in RUNS_CODE:
        return _damaged(source_name, f"instruction {name or hex(ord(code))} at byte {position}")
    what, place = (str(loaded), loaded.position) if loaded else (f"do {name}", position)
    return InputError(
        f"{source_name}: the pickle wants to {what} at byte {place}, which could run code; refused",
        "a flight-recorder dump holds plain data only; find out where this file comes from",
    )
