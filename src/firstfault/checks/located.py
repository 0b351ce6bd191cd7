"""Plain dicts and lists that remember the lines they came from, and the value of something nobody can know yet.

Loaders of YAML and HCL build these; checks read them like ordinary dicts and lists and ask `line_of` for the line to
point at. A value that a static reading cannot resolve is an `Unresolved`, never None: None means "written as null".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

__all__ = [
    "ABSENT",
    "Absent",
    "LocatedDict",
    "LocatedList",
    "Place",
    "Unresolved",
    "dig",
    "find_unresolved",
    "line_of",
    "place_of",
]


class Place(msgspec.Struct, frozen=True):
    """A passage of a file: `path` as it was given, lines from 1, both ends included."""

    path: str
    line: int
    end_line: int = 0

    @property
    def last(self) -> int:
        """The last line; the first one where no end is known."""
        return max(self.line, self.end_line)


class LocatedDict(dict[Any, Any]):
    """A mapping with the line of itself and of each of its keys.

    Attributes:
        line: Line on which the mapping starts.
        end_line: Line on which it ends (0: not known).
        key_lines: Line of each key.
        path: File of the mapping; set on the outermost mapping of a document or block.
    """

    __slots__ = ("end_line", "key_lines", "line", "path")

    def __init__(self, line: int = 0, end_line: int = 0, path: str = "") -> None:
        super().__init__()
        self.line = line
        self.end_line = end_line
        self.path = path
        self.key_lines: dict[Any, int] = {}


class LocatedList(list[Any]):
    """A sequence with the line of itself and of each of its items."""

    __slots__ = ("end_line", "item_lines", "line")

    def __init__(self, line: int = 0, end_line: int = 0) -> None:
        super().__init__()
        self.line = line
        self.end_line = end_line
        self.item_lines: list[int] = []


class Unresolved(msgspec.Struct, frozen=True):
    """A value that a static reading cannot know.

    Attributes:
        reason: Why, in words that end a sentence ("variable az has no default and no tfvars set it").
        ref: What it refers to, in the writer's own terms ("aws_security_group.node.id"); two values with the same
            non-empty ref are the same value although nobody knows which.
        text: For strings that are known in part: the text with `${ref}` where it is not.
    """

    reason: str
    ref: str = ""
    text: str = ""


class Absent:
    """The type of `ABSENT`: there is no such key, which is different from null and from unresolved."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Final = Absent()


def dig(value: Any, *steps: str | int) -> Any:
    """Return what lies below `value` at `steps`, or ABSENT. An `Unresolved` met on the way is returned as it is.

    A key whose value is null counts as absent when more steps follow.
    """
    for step in steps:
        if isinstance(value, Unresolved):
            return value
        if isinstance(step, int):
            if not isinstance(value, list) or not -len(value) <= step < len(value):
                return ABSENT
            value = value[step]
        else:
            if not isinstance(value, dict) or step not in value:
                return ABSENT
            value = value[step]
    return value


def line_of(value: Any, *steps: str | int) -> int:
    """Return the line of what lies below `value` at `steps`; of its nearest known ancestor where it is absent."""
    line = int(getattr(value, "line", 0))
    for step in steps:
        if isinstance(step, str) and isinstance(value, LocatedDict):
            line = value.key_lines.get(step, 0) or line
        elif isinstance(step, int) and isinstance(value, LocatedList) and -len(value) <= step < len(value):
            line = value.item_lines[step] or line
        value = dig(value, step)
        if value is ABSENT:
            break
    return max(line, 1)


def place_of(path: str, value: Any, *steps: str | int) -> Place:
    """Return `line_of` as a `Place` of the file `path`, with the end of the passage where that is known."""
    line = max(line_of(value, *steps), 0 if steps else 1)  # a whole body begins somewhere
    end = int(getattr(dig(value, *steps), "end_line", 0))
    return Place(path, line, max(end, line))


def find_unresolved(value: Any) -> Iterator[Unresolved]:
    """Yield every `Unresolved` inside `value`."""
    if isinstance(value, Unresolved):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from find_unresolved(item)
    elif isinstance(value, list):
        for item in value:
            yield from find_unresolved(item)
