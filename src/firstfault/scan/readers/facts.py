"""How a reader of structured documents prints one fact, and looks into objects that may hold anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.model import TextLine
from firstfault.scan.readers.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.scan.readers.joint import JointAnalysis
    from firstfault.scan.readers.json_values import Places

__all__ = ["Context", "items", "mapping", "mappings", "name_of", "one_of", "subject_of", "text_of", "whole_number"]

MAX_TEXT = 16_000
MAX_BITS = 128  # no number that means anything is larger, and Python refuses to print much larger ones


class Context:
    """Where an object stands in its source. Facts printed through it bear line and offset.

    Args:
        places: Positions in the decoded text; None where the source has no lines.
        start: First character of the object.
        end: Character behind the object.
        source_name: Name of the source.
        joint: Takes what only several sources together tell.
    """

    def __init__(
        self,
        places: Places | None,
        start: int,
        end: int,
        source_name: str,
        joint: JointAnalysis | None = None,
    ) -> None:
        self.places = places
        self.start = start
        self.end = end
        self.source_name = source_name
        self.joint = joint
        self._own_place: tuple[int | None, int | None] | None = None

    def place(self, needle: str = "") -> tuple[int | None, int | None]:
        """Return line and offset of a string within the object; of the object itself if it is not there."""
        if self.places is None:
            return None, None
        if needle:
            return self.places.find(needle, self.start, self.end)
        if self._own_place is None:
            self._own_place = self.places.place(self.start)
        return self._own_place

    def print(
        self,
        head: str,
        message: Any = "",
        *,
        needle: str | None = "",
        time: Any = None,
        stream: str = "",
        rank: int | None = None,
    ) -> Iterator[TextLine]:
        """Yield a fact. A message of several lines continues on lines of its own, as the program printed them.

        Args:
            head: What comes before the message.
            message: The message as the program wrote it.
            needle: What to look for in the object to find the line; the beginning of the message by default, None for
                the place of the object itself.
            time: Anything that `parse_time` understands.
            stream: What wrote it.
            rank: The rank it is about.
        """
        first, *rest = text_of(message).splitlines() or [""]
        head = " ".join(head.splitlines()) if "\n" in head else head
        line, offset = self.place("" if needle is None else needle or first[:60].replace('"', '\\"'))
        when = parse_time(time)
        for text in (head + first, *rest):
            if text.strip():
                yield TextLine(
                    text=text[:MAX_TEXT].rstrip(), line=line, offset=offset, time=when, stream=stream, rank=rank
                )


def subject_of(fact: str) -> str:
    """Return `Kind/namespace/name` of an event's canonical line, as its stream; "" for all other lines.

    Of equal lines of one stream only the first and the last are kept: each object needs its own.
    """
    if not fact.startswith("event "):
        return ""
    subject = fact.split(" ", 4)[3:4]
    return subject[0].rstrip(":") if subject and "/-/-" not in subject[0] else ""


def mapping(value: Any, *keys: str) -> dict[str, Any]:
    """Return the mapping behind a path of keys; an empty one if something on the way is no mapping."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return a list as it is, and an empty one for anything else."""
    return value if isinstance(value, list) else []


def mappings(value: Any) -> list[dict[str, Any]]:
    """Return the mappings of a list, leaving out whatever else is in it."""
    return [item for item in items(value) if isinstance(item, dict)]


def one_of(value: dict[str, Any], *keys: str) -> Any:
    """Return the first value that is set among several keys, or None."""
    return next((value[key] for key in keys if value.get(key) not in (None, "")), None)


def text_of(value: Any) -> str:
    """Return a scalar as text as Kubernetes would print it; nothing for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        return ""
    return str(value) if isinstance(value, (str, int, float)) else ""


def whole_number(value: Any) -> int | None:
    """Return an integer of 64 bits as it is, and None for anything else: truth values, and what no counter reaches."""
    return value if type(value) is int and value.bit_length() < 64 else None


def name_of(value: Any) -> str:
    """Return a scalar as text on one line; for names, which stand between other parts of a fact."""
    text = text_of(value)
    return text if text.isprintable() else " ".join(text.split())
