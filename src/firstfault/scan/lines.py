"""Turns candidate matches into observations: finds the line, confirms it, reads its prefix, keeps equal ones together.

Memory stays constant however long the input is: of equal observations the first and the last are kept, and a count.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from firstfault.model import Observation, SourceInfo, TextLine
from firstfault.scan.engine import LONGEST_LINE
from firstfault.scan.mentions import MENTION, is_mention
from firstfault.scan.prefix import Prefix, parse_prefix
from firstfault.scan.readers.text_kinds import is_kernel_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from firstfault.scan.engine import Candidate
    from firstfault.scan.patterns import Pattern

__all__ = ["Examined", "LineCollector", "examine"]

LONGEST_TEXT = 2_000
LONGEST_NUMBER = 40
_HUGE_NUMBER = re.compile(rf"\d{{{LONGEST_NUMBER},}}")
# Distinct values of captured fields kept per (signature, rank, stream); ports and addresses could be without end.
VARIANTS = 8
# Distinct (rank, stream) kept per signature and source: more ranks than any job has.
WRITERS = 50_000
# After this many confirmed lines that brought nothing new, a signature of a source is sampled: so many in each chunk.
SATURATED = 4_000
SAMPLE = 64
# With fewer line ends in so many bytes they are far enough apart for leaping.
LOOKED_AT = 8192
FEW_LINE_ENDS = LOOKED_AT // 32


class Examined(NamedTuple):
    """What one chunk holds: candidate lines as (pattern, text, line number and offset within the chunk), and its size.

    `is_cut` tells that its last line has no line end.
    """

    lines: list[tuple[int, str, int, int]]
    newlines: int
    is_cut: bool
    size: int


class _Place(NamedTuple):
    """A confirmed line, of which an observation can be made."""

    text: str
    line: int | None
    offset: int | None
    fields: dict[str, str | None]
    prefix: Prefix
    given: TextLine | None
    is_mention: bool

    @property
    def order(self) -> int | None:
        """Where the line comes among those of its source, as an observation has it."""
        return self.line if self.given is None or self.given.place is None else self.given.place


@dataclass(slots=True)
class _Seen:
    first: _Place
    last: _Place | None = None
    count: int = 1


@dataclass(slots=True)
class _Tally:
    """What was seen of one pattern in one source."""

    seen: dict[tuple[object, ...], _Seen] = field(default_factory=dict)
    variants: dict[tuple[int | None, str], int] = field(default_factory=dict)
    idle: int = 0


class LineCollector:
    """Collects the observations of one source.

    Args:
        patterns: The table that the engine's indexes refer to.
        source: Name of the source.
        kind: Kind of the source, for patterns that count on some kinds only.
    """

    def __init__(self, patterns: Sequence[Pattern], source: str, kind: str) -> None:
        self._patterns = patterns
        self._source = source
        self.kind = kind
        self._tallies: dict[int, _Tally] = {}
        self.lines: int | None = 0
        self._newlines = 0
        self._read: tuple[str, TextLine | None, Prefix] = ("", None, Prefix())
        self.bytes = 0
        # Replaced as a whole, so that who was given it keeps what it was then.
        self.saturated: frozenset[int] = frozenset()

    def add(self, examined: Examined) -> None:
        """Take in one chunk; chunks come in order."""
        for place in _sample([index for index, *_ in examined.lines], self.saturated):
            index, raw, line, offset = examined.lines[place]
            self._add(index, raw, self._newlines + line, self.bytes + offset)
        self._newlines += examined.newlines
        self.lines = self._newlines + examined.is_cut
        self.bytes += examined.size

    def add_text_lines(self, lines: Sequence[TextLine], starts: Sequence[int], candidates: list[Candidate]) -> None:
        """Take in lines of a reader, joined by newlines into the buffer in which the candidates were found.

        Args:
            lines: The lines, in order.
            starts: Offset of each line in that buffer.
            candidates: What the engine found in that buffer.
        """
        for start, _, index in candidates:
            given = lines[bisect_right(starts, start) - 1]
            self._add(index, given.text[:LONGEST_LINE], given.line, given.offset, given)

    def _add(self, index: int, raw: str, line: int | None, offset: int | None, given: TextLine | None = None) -> None:
        pattern = self._patterns[index]
        if pattern.kinds and self.kind not in pattern.kinds and not ("kernel" in pattern.kinds and is_kernel_line(raw)):
            return
        # Several patterns often look at one line: its prefixes are read once.
        prefix = self._prefix_of(raw, given) if pattern.anchored else None
        match = pattern.confirm(raw, None if prefix is None else raw[prefix.start :])
        if match is None:
            return
        prefix = prefix or self._prefix_of(raw, given)
        start = match.start() if match.string == raw else match.start() + prefix.start
        fields = match.groupdict() if match.re.groupindex else {}
        if any(value and len(value) > LONGEST_NUMBER for value in fields.values()):
            fields = {name: value and _within_bounds(value) for name, value in fields.items()}
        end = start + match.end() - match.start()
        mentions = pattern.names_fault and is_mention(raw, prefix.start, start, end)
        self._keep(index, _Place(_excerpt(raw, start), line, offset, fields, prefix, given, mentions))

    def _prefix_of(self, raw: str, given: TextLine | None) -> Prefix:
        if self._read[0] != raw or self._read[1] is not given:
            prefix = parse_prefix(raw)
            if given is not None:
                _fill_in(prefix, given)
            self._read = (raw, given, prefix)
        return self._read[2]

    def _keep(self, index: int, place: _Place) -> None:
        tally = self._tallies.get(index)
        if tally is None:
            tally = self._tallies[index] = _Tally()
        writer = (place.prefix.rank, place.prefix.stream)
        if writer not in tally.variants and len(tally.variants) >= WRITERS:
            writer = (None, "")
        key: tuple[object, ...] = (*writer, place.is_mention, tuple(place.fields.values()))
        if key not in tally.seen and tally.variants.get(writer, 0) >= VARIANTS:
            key = (*writer, place.is_mention, "others")
        if known := tally.seen.get(key):
            # What a paste took apart is read once more, after all lines, and an export may have the newest first: the
            # first and the last one are those by their place.
            if (place.order or 0) < (known.first.order or 0):
                known.first, place = place, known.first
            if known.last is None or place.order is None or place.order >= (known.last.order or 0):
                known.last = place
            known.count += 1
            tally.idle += 1
            if tally.idle > SATURATED:
                self.saturated |= {index}
            return
        tally.seen[key] = _Seen(place)
        tally.variants[writer] = tally.variants.get(writer, 0) + 1
        tally.idle = 0

    def _observation(self, index: int, place: _Place, repeats: int = 1) -> Observation:
        pattern, prefix, given = self._patterns[index], place.prefix, place.given
        return Observation(
            signature=pattern.key,
            cause=pattern.cause,
            role=pattern.role,
            strength=round(pattern.strength * MENTION, 3) if place.is_mention else pattern.strength,
            source=self._source,
            text=place.text,
            line=place.line,
            offset=place.offset,
            rank=prefix.rank,
            time=prefix.time,
            clock=prefix.clock,
            stream=prefix.stream,
            place=given.place if given is not None else None,
            entry=given.entry if given is not None else None,
            fields={name: value for name, value in place.fields.items() if value is not None},
            repeats=repeats,
        )

    def info(self) -> SourceInfo:
        """Describe the source that was read."""
        return SourceInfo(name=self._source, kind=self.kind, bytes=self.bytes, lines=self.lines)

    def observations(self) -> list[Observation]:
        """Return what was collected: per group of equal ones the first (with the count) and the last, by position."""
        found: list[Observation] = []
        for index, tally in self._tallies.items():
            for seen in tally.seen.values():
                if seen.last is None:
                    found.append(self._observation(index, seen.first))
                else:
                    found.append(self._observation(index, seen.first, seen.count - 1))
                    found.append(self._observation(index, seen.last))
        return sorted(found, key=lambda item: (item.order or 0, item.offset or 0, item.signature))


def examine(original: bytes, chunk: bytes, candidates: list[Candidate], saturated: AbstractSet[int]) -> Examined:
    """Pick the candidate lines out of a chunk. Runs in a worker thread; knows nothing of other chunks.

    Args:
        original: The bytes as they were read, for counting lines.
        chunk: The same made readable, of the same length, in which the candidates were found.
        candidates: What the engine found.
        saturated: Patterns of which a sample is enough.
    """
    lines: list[tuple[int, str, int, int]] = []
    position = 0
    line = 1
    text = ""
    for place in _sample([index for _, _, index in candidates], saturated):
        start, end, index = candidates[place]
        if start != position or len(text) in {0, LONGEST_LINE}:  # of a long line each has its own part
            line += count_newlines(original[position:start])
            position = start
            text = _line_at(chunk, start, end)
        lines.append((index, text, line, start))
    newlines = line - 1 + count_newlines(original[position:] if position else original)
    return Examined(lines, newlines, bool(original) and not original.endswith(b"\n"), len(original))


def _within_bounds(value: str) -> str:
    """Cut what no program prints on purpose: numbers that Python refuses to convert, or that overflow a float."""
    return _HUGE_NUMBER.sub(lambda found: found[0][:LONGEST_NUMBER], value[:LONGEST_TEXT])


def _sample(indexes: Sequence[int], saturated: AbstractSet[int]) -> Sequence[int]:
    """Return which lines of a chunk to look at: of a saturated pattern the first ones and the last one."""
    if not saturated:
        return range(len(indexes))
    chosen: list[int] = []
    seen: Counter[int] = Counter()
    last: dict[int, int] = {}
    for place, index in enumerate(indexes):
        if index in saturated:
            seen[index] += 1
            if seen[index] >= SAMPLE:
                last[index] = place
                continue
        chosen.append(place)
    return sorted([*chosen, *last.values()])


def count_newlines(text: bytes) -> int:
    """Count the line ends of a text.

    Up to Python 3.12 `bytes.count` looks at one byte after the other, while `bytes.replace` leaps from one line end to
    the next (memchr): two to four times as fast with lines of 100 bytes, slower with very short ones.
    """
    if sys.version_info < (3, 13) and len(text) > LOOKED_AT and text.count(b"\n", 0, LOOKED_AT) < FEW_LINE_ENDS:
        return len(text) - len(text.replace(b"\n", b""))
    return text.count(b"\n")


def _line_at(chunk: bytes, start: int, end: int) -> str:
    stop = chunk.find(b"\n", max(end - 1, start))
    stop = len(chunk) if stop < 0 else stop
    if stop - start > LONGEST_LINE:
        # A line of megabytes: what surrounds the match is enough.
        start = max(start, end - LONGEST_LINE // 2)
        stop = min(stop, start + LONGEST_LINE)
    return chunk[start:stop].decode("utf-8", "replace").rstrip()


def _excerpt(raw: str, position: int) -> str:
    if len(raw) <= LONGEST_TEXT:
        return raw
    start = max(0, position - LONGEST_TEXT // 4)
    return raw[start : start + LONGEST_TEXT]


def _fill_in(prefix: Prefix, given: TextLine) -> None:
    if given.rank is not None:
        prefix.rank = given.rank
    if given.time is not None:
        prefix.time, prefix.clock = given.time, ""
    if given.stream:
        prefix.stream = given.stream
