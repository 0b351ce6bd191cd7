"""Bounds on the work that few bytes of a pickle can ask for: plain data that refers to itself many times over.

A list that holds another list ten times, twenty deep, takes a kilobyte in memory, and whoever walks through it never
comes to its end. Where tuples are nested so, hashing one of them is enough, which the unpickler does with each key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.errors import InputError, LimitError

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["MAX_HASHED", "MAX_UNFOLDED", "check_keys", "check_unfolded"]

MAX_UNFOLDED = 20_000_000
"""Values; the largest dump of 20,000 operations with 60 frames each has half of that."""
MAX_HASHED = 10_000_000
"""Values that are hashed while the pickle is loaded."""
MAX_KEY = 1000
"""Values in one key: hashing goes down into nested tuples on the stack of the machine, which ends some day."""

# Which of the values down to the mark are hashed: every one, every second one, none.
_TO_MARK = {"TUPLE": 0, "FROZENSET": 1, "ADDITEMS": 1, "SETITEMS": 2, "APPENDS": 0}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_CONTAINERS = frozenset({dict, list, tuple, set, frozenset})


def _refusal(source_name: str, what: str) -> LimitError:
    return LimitError(
        f"{source_name}: the pickle {what}; refused", "no recorder writes that; find out where this file comes from"
    )


def check_keys(data: bytes, source_name: str) -> None:
    """Follow the instructions of plain data and add up what the unpickler would hash: keys and members of sets.

    Takes about a microsecond per instruction: only worth it where tuples are shared, or may be nested very deep.

    Raises:
        LimitError: More than `MAX_HASHED` values, or `MAX_KEY` in one key.
        InputError: The instructions do not fit together.
    """
    import pickletools  # noqa: PLC0415 - few sources are pickles

    keys = _Keys(source_name)
    try:
        for known, argument, _ in pickletools.genops(data):
            keys.follow(known.name, argument)
    except (ValueError, IndexError, KeyError, OverflowError) as error:
        raise InputError(
            f"{source_name}: not a readable pickle: its instructions do not fit", "write the dump again"
        ) from error


class _Keys:
    """The stack of the unpickler, with one number for each value: how many values hashing it looks at."""

    def __init__(self, source_name: str) -> None:
        self._source_name = source_name
        self._stack: list[int] = []
        self._marks: list[int] = []
        self._memo: dict[int, int] = {}
        self._hashed = 0

    def _hash(self, values: list[int]) -> None:
        self._hashed += sum(values)
        if values and max(values) > MAX_KEY:
            raise _refusal(self._source_name, f"has a key of more than {MAX_KEY:,} values")
        if self._hashed > MAX_HASHED:
            raise _refusal(self._source_name, f"has keys of more than {MAX_HASHED:,} values in all")

    def follow(self, name: str, argument: Any) -> None:
        """Do to the numbers what an instruction does to the values."""
        stack = self._stack
        if name == "MARK":
            self._marks.append(len(stack))
        elif name in _TO_MARK:
            self._take(name)
        elif name in _TUPLES:
            stack[-_TUPLES[name] :] = [1 + sum(stack[-_TUPLES[name] :])]
        elif name == "SETITEM":
            self._hash([stack[-2]])
            del stack[-2:]
        elif name == "APPEND":
            stack.pop()
        elif name in ("MEMOIZE", "BINPUT", "LONG_BINPUT"):
            self._memo[len(self._memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name not in ("PROTO", "FRAME", "STOP"):
            stack.append(1)

    def _take(self, name: str) -> None:
        """Do what takes everything from the stack down to the mark."""
        place = self._marks.pop()
        values = self._stack[place:]
        del self._stack[place:]
        self._hash(values[:: _TO_MARK[name]] if _TO_MARK[name] else [])
        if name in ("TUPLE", "FROZENSET"):
            self._stack.append(1 + sum(values))


def check_unfolded(value: Any, source_name: str) -> None:
    """Refuse data that would be endless, or nearly so, for whoever walks through it.

    Keys are left out: `check_keys` bounds those that are shared.

    Raises:
        LimitError: It refers to itself, or holds more than `MAX_UNFOLDED` values where each reference counts anew.
    """
    sizes: dict[int, int] = {}
    opened: set[int] = set()
    waiting = [value]
    while waiting:
        each = waiting[-1]
        if id(each) in sizes:
            waiting.pop()
            continue
        size, missing = _measure(each, sizes)
        if missing:
            opened.add(id(each))
            if any(id(part) in opened for part in missing):  # what is open and not done holds this one
                raise _refusal(source_name, "holds something that holds itself")
            waiting += missing
            continue
        if size > MAX_UNFOLDED:
            raise _refusal(source_name, f"unfolds to more than {MAX_UNFOLDED:,} values")
        sizes[id(each)] = size
        opened.discard(id(each))
        waiting.pop()


def _measure(value: Any, sizes: dict[int, int]) -> tuple[int, list[Any]]:
    """Return how many values a value holds, as far as is known, and those in it of which it is not known yet."""
    size = 1
    missing = []
    for part in _parts(value):
        size += 1
        if type(part) in _CONTAINERS:
            inner = sizes.get(id(part))
            # Most containers hold none: those of a dump's frames, which are most of it.
            if inner is None and _CONTAINERS.isdisjoint(map(type, _parts(part))):
                inner = sizes[id(part)] = 1 + len(part)
            if inner is None:
                missing.append(part)
            else:
                size += inner
    return size, missing


def _parts(value: Any) -> Collection[Any]:
    """Return what is directly in a value."""
    if type(value) is dict:
        return value.values()
    return value if type(value) in _CONTAINERS else ()
