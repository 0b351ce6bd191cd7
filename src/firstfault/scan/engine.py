"""Finds candidate lines: which patterns may match where, over raw bytes, many patterns at once.

Two engines with one face. Hyperscan (Vectorscan) looks for the literals of all patterns at once, a gigabyte a second
and core, and lets go of the interpreter lock meanwhile; each literal leads to the few patterns that need it. Which ones
those are is kept for all lines that differ in numbers only: there are logs in which every line is an error. Where
Hyperscan does not run, Python's `re` goes over the buffer once per pattern one of whose literals occurs in it.

Both may report too much; `Pattern.confirm` decides on the line. They never report too little, except for patterns of
which one line per piece is wanted: there only the first line of each piece that holds one of their literals is looked
at.
"""

from __future__ import annotations

import contextlib
import re
import threading
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from firstfault.catalogue import content_key, load_bytes, store_bytes
from firstfault.scan.literals import certain_literals, ignores_case, required_literals, shared_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.scan.patterns import Pattern

__all__ = ["LONGEST_LINE", "Candidate", "Engine", "HyperscanEngine", "ReEngine", "load_engine"]

# Shapes of lines whose patterns are kept, for each sieve; a storm of errors has some thousands.
KEPT_SHAPES = 20_000
LONGEST_SHAPE = 1024
# From so many lines of a shape on it is looked at more closely.
COMMON = 16
# Of a longer line only what surrounds a hit is confirmed: all ways of looking must name the same hit.
LONGEST_LINE = 16_384
_DIGIT = re.compile(rb"\d")
_SHAPE = bytes.maketrans(b"123456789", b"000000000")
_SEVENS = bytes.maketrans(b"0123456789", b"7777777777")


class Candidate(NamedTuple):
    """A pattern that may match on a line: where the line starts, where the match ends, which pattern it is."""

    start: int
    end: int
    pattern: int


class Engine(Protocol):
    """What scan needs of an engine."""

    def find(self, chunk: bytes, piece: int = 0, *, once: bool = True) -> list[Candidate]:
        """Return the candidates of a chunk, ordered, one per line and pattern.

        Safe to call from several threads at once.

        Args:
            chunk: Whole lines, ended by newlines.
            piece: Of patterns of which one line is enough, look for one in so many bytes; 0: one in the chunk.
            once: Whether to look for these patterns at all.
        """
        ...


class _Lead(NamedTuple):
    """Where a hit of the sieve leads: a literal, and the patterns that need it, each with what its line must hold too.

    The literal is empty where the sieve held the pattern itself, and all are in lower case where case does not matter.
    """

    literal: bytes
    ignore_case: bool
    patterns: list[tuple[int, list[bytes]]]


class _Shape:
    """What was found out about lines that differ in numbers only.

    Attributes:
        patterns: What may match on any of them.
        numbered: What may match where certain numbers stand: (pattern, whether case does not matter, what the line must
            hold).
        lines: How many there were.
    """

    __slots__ = ("lines", "numbered", "patterns")

    def __init__(self, patterns: list[int], numbered: list[tuple[int, bool, list[bytes]]]) -> None:
        self.patterns = patterns
        self.numbered = numbered
        self.lines = 0


class _Leads:
    """For each row of a sieve where it leads; read when it is asked for, which most rows never are.

    Args:
        stored: What `pack` made.

    Raises:
        msgspec.DecodeError: It is something else.
    """

    def __init__(self, stored: bytes) -> None:
        self._stored = msgspec.msgpack.decode(stored, type=list[msgspec.Raw])
        self._read: dict[int, list[_Lead]] = {}

    @staticmethod
    def pack(leads: list[list[_Lead]]) -> bytes:
        """Return what may be stored."""
        return msgspec.msgpack.encode(leads)

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, row: int) -> list[_Lead]:
        found = self._read.get(row)
        if found is None:
            found = self._read[row] = msgspec.msgpack.decode(self._stored[row], type=list[_Lead])
        return found


class _Sieve(NamedTuple):
    """A database of literals, for each of its rows where it leads, and what was found out so far by shape and rows."""

    name: str
    database: Any
    leads: _Leads
    shapes: dict[tuple[bytes, tuple[int, ...]], _Shape]


def _led_to(sieve: _Sieve, text: bytes, rows: tuple[int, ...]) -> _Shape:
    """Follow the rows of the sieve that have hits on lines of a shape."""
    found: dict[int, None] = {}
    numbered: list[tuple[int, bool, list[bytes]]] = []
    lowered = text.lower()
    for row in dict.fromkeys(rows):
        for literal, ignore_case, patterns in sieve.leads[row]:
            where = lowered if ignore_case else text
            if literal.translate(_SHAPE) not in where:
                continue
            for pattern, others in patterns:
                if pattern in found or any(other.translate(_SHAPE) not in where for other in others):
                    continue
                if numbers := [each for each in (literal, *others) if _DIGIT.search(each)]:
                    numbered.append((pattern, ignore_case, numbers))
                else:
                    found[pattern] = None
    return _Shape(list(found), [each for each in numbered if each[0] not in found])


class HyperscanEngine:
    """The literals of all patterns in one Hyperscan database, compiled once and cached.

    Args:
        patterns: The table; indexes in it are what `find` reports.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        import hyperscan  # noqa: PLC0415 - 12 ms, and not on every platform

        self._hyperscan = hyperscan
        self._local = threading.local()
        self._table = patterns
        table = "\0".join(f"{row.regex}\1{row.ignore_case}{row.first_only}" for row in patterns)
        here = Path(__file__).parent
        code = b"".join(
            (here / name).read_bytes() for name in ("engine.py", "literals.py", "patterns.py", "everyday.txt")
        )
        self._key = content_key(table.encode(), hyperscan.__version__.encode(), code)  # type: ignore[attr-defined]
        self._every = self._load_sieve("every", once=False)
        self._once = self._load_sieve("once", once=True)

    def find(self, chunk: bytes, piece: int = 0, *, once: bool = True) -> list[Candidate]:
        """Scan one chunk."""
        found = self._find(self._every, chunk, 0)
        if not once:
            return found
        start = 0
        while start < len(chunk):
            stop = chunk.find(b"\n", start + piece) + 1 if piece else 0
            part = chunk[start : stop or len(chunk)] if start or stop else chunk
            found += self._find(self._once, part, start)
            start += len(part)
        return sorted(found)

    def _find(self, sieve: _Sieve, part: bytes, base: int) -> list[Candidate]:
        """Look on each line with a hit for what the patterns behind it need."""
        hits = self._scan(sieve.name, sieve.database, part) if sieve.leads else []
        hits.sort()
        found: list[Candidate] = []
        at = 0
        while at < len(hits):
            end = hits[at][0]
            start = part.rfind(b"\n", 0, end - 1) + 1
            stop = part.find(b"\n", end - 1)
            stop = len(part) if stop < 0 else stop
            after = max(bisect_right(hits, (stop, len(sieve.leads)), at), at + 1)  # a match may hold the line's end
            line = part[start:stop]
            if len(line) > LONGEST_LINE:
                found += self._on_long_line(
                    sieve, line, base + start, [(end - start, row) for end, row in hits[at:after]]
                )
            else:
                for pattern in self._on_line(sieve, line, tuple([row for _, row in hits[at:after]])):
                    found.append(Candidate(base + start, base + stop, pattern))
            at = after
        return found

    def _on_line(self, sieve: _Sieve, line: bytes, rows: tuple[int, ...]) -> list[int]:
        """The patterns that may match on a line on which these rows of the sieve have hits.

        The lines of a program differ in little but numbers, so what was found out for one is kept for all of its shape.
        """
        text = line.translate(_SHAPE)
        shape = sieve.shapes.get((text, rows))
        if shape is None and len(line) > LONGEST_SHAPE:
            shape = _led_to(sieve, text, rows)
        if shape is None:
            if len(sieve.shapes) >= KEPT_SHAPES:
                sieve.shapes.clear()
            shape = sieve.shapes[text, rows] = _led_to(sieve, text, rows)
        shape.lines += 1
        if shape.lines == COMMON:
            self._look_closely(shape, text, line)
        if not shape.numbered:
            return shape.patterns
        lowered = line.lower()
        wanted = [
            pattern
            for pattern, ignore_case, literals in shape.numbered
            if all(literal in (lowered if ignore_case else line) for literal in literals)
        ]
        return list(dict.fromkeys(shape.patterns + wanted))

    def _look_closely(self, shape: _Shape, text: bytes, line: bytes) -> None:
        """Let go of what matches on no line of a shape; patterns must be compiled for that."""
        lines = [each.decode("utf-8", "replace").rstrip() for each in (text, line, line.translate(_SEVENS))]

        def may_match(pattern: Pattern) -> bool:
            # What is vetoed whatever the numbers are is vetoed on all lines of the shape.
            return bool(pattern.whatever_numbers.search(lines[0])) and (
                pattern.heeds_numbers or any(pattern.confirm(each) for each in lines)
            )

        shape.patterns = [each for each in shape.patterns if may_match(self._table[each])]
        shape.numbered = [each for each in shape.numbered if may_match(self._table[each[0]])]

    def _on_long_line(self, sieve: _Sieve, line: bytes, start: int, hits: list[tuple[int, int]]) -> list[Candidate]:
        """The same for a line of which only what surrounds a hit is confirmed."""
        found: dict[int, Candidate] = {}
        lowered = line.lower()
        rows: set[int] = set()
        for end, row in hits:
            if row in rows:
                continue
            rows.add(row)
            for literal, ignore_case, patterns in sieve.leads[row]:
                text = lowered if ignore_case else line
                if literal not in text:
                    continue
                for pattern, others in patterns:
                    if pattern not in found and all(other in text for other in others):
                        found[pattern] = Candidate(start, start + end, pattern)
        return list(found.values())

    def _scan(self, name: str, database: Any, buffer: bytes) -> list[tuple[int, int]]:
        scratch = getattr(self._local, name, None)
        if scratch is None:
            scratch = self._hyperscan.Scratch(database)
            setattr(self._local, name, scratch)
        hits: list[tuple[int, int]] = []
        keep = hits.append
        database.scan(
            buffer,
            match_event_handler=lambda row, _start, end, _flags, _context: keep((end, row)),
            scratch=scratch,
        )
        return hits

    def _flags(self, pattern: Pattern) -> int:
        flags: int = self._hyperscan.HS_FLAG_MULTILINE
        return flags | (self._hyperscan.HS_FLAG_CASELESS if pattern.ignore_case else 0)

    def _load_sieve(self, name: str, *, once: bool) -> _Sieve:
        stored = load_bytes(f"leads-{name}", self._key)
        database = self._load(f"sieve-{name}") if stored else None
        if stored and database is not None:
            with contextlib.suppress(msgspec.DecodeError):
                return _Sieve(name, database, _Leads(stored), {})
        rows = sorted(self._sieve_rows(once=once).items())
        stored = _Leads.pack([found for _, found in rows])
        if not rows:
            return _Sieve(name, None, _Leads(stored), {})
        store_bytes(f"leads-{name}", self._key, stored)
        return _Sieve(name, self._compile(f"sieve-{name}", [row for row, _ in rows]), _Leads(stored), {})

    def _sieve_rows(self, *, once: bool) -> dict[tuple[str, int], list[_Lead]]:
        """(expression, flags) → where it leads. A pattern without selective literals stands in the sieve itself."""
        caseless, single = self._hyperscan.HS_FLAG_CASELESS, self._hyperscan.HS_FLAG_SINGLEMATCH if once else 0
        table = [(index, pattern) for index, pattern in enumerate(self._table) if pattern.first_only == once]
        # Both are read off a pattern together, so that it is parsed once.
        needed = [
            (required_literals(pattern.superset, once=once), certain_literals(pattern.superset)) for _, pattern in table
        ]
        part_of = shared_windows(sorted(set().union(*(found or () for found, _ in needed))))
        leads: dict[tuple[str, int], dict[tuple[bytes, bool], _Lead]] = defaultdict(dict)
        for (index, pattern), (found, certain) in zip(table, needed, strict=True):
            ignore_case = pattern.ignore_case or ignores_case(pattern.regex)
            for literal in sorted(found or ("",)):
                # Of a pattern that is wanted once only the first hit is seen: look for all of its literal.
                part = literal if once else part_of.get(literal, "")
                row = (re.escape(part), (caseless if ignore_case else 0) | single)
                if found is None:
                    row = (pattern.superset, self._flags(pattern) | single)
                texts = [literal, *(other for other in certain if other not in literal)]
                first, *others = [(text.lower() if ignore_case else text).encode() for text in texts]
                lead = leads[row].setdefault((first, ignore_case), _Lead(first, ignore_case, []))
                lead.patterns.append((index, others))
        return {row: list(found.values()) for row, found in leads.items()}

    def _load(self, kind: str) -> Any | None:
        if blob := load_bytes(kind, self._key):
            try:
                return self._hyperscan.loadb(blob, self._hyperscan.HS_MODE_BLOCK)
            except self._hyperscan.HyperscanError:
                pass  # built for another processor or library: compile it here
        return None

    def _compile(self, kind: str, rows: Sequence[tuple[str, int]]) -> Any:
        database = self._hyperscan.Database(mode=self._hyperscan.HS_MODE_BLOCK)
        database.compile(
            expressions=[expression.encode() for expression, _ in rows],
            ids=list(range(len(rows))),
            flags=[flags for _, flags in rows],
        )
        store_bytes(kind, self._key, self._hyperscan.dumpb(database))
        return database


class ReEngine:
    """Python's `re`, one pattern at a time, skipping those of whose literals none is in the chunk.

    Args:
        patterns: The table; indexes in it are what `find` reports.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._rows = []
        for index, pattern in enumerate(patterns):
            flags = re.MULTILINE | (re.IGNORECASE if pattern.ignore_case else 0)
            ignore_case = pattern.ignore_case or ignores_case(pattern.regex)
            needed = [
                literal.lower().encode() if ignore_case else literal.encode()
                for literal in required_literals(pattern.superset, once=pattern.first_only) or ()
            ]
            compiled = re.compile(pattern.superset.encode(), flags)
            self._rows.append((index, needed, compiled, ignore_case, pattern.first_only))

    def find(self, chunk: bytes, piece: int = 0, *, once: bool = True) -> list[Candidate]:
        """Scan one chunk."""
        found: list[Candidate] = []
        lowered = chunk.lower()
        for index, needed, pattern, ignore_case, first_only in self._rows:
            if first_only and not once:
                continue
            where = lowered if ignore_case else chunk
            if needed and not any(literal in where for literal in needed):
                continue
            found += _lines_with(pattern, chunk, index, (piece or len(chunk)) if first_only else 0)
        return sorted(found)


def _lines_with(pattern: re.Pattern[bytes], chunk: bytes, index: int, skip: int) -> list[Candidate]:
    """Every line on which a pattern begins to match, or one in `skip` bytes.

    Matches are sought anew on each line, so that one that runs over a line's end hides none.
    """
    found = []
    position = 0
    while match := pattern.search(chunk, position):
        # A pattern that begins with white space may match from the end of the line before.
        begin = match.end() - len(match[0].lstrip(b"\n"))
        start = chunk.rfind(b"\n", 0, begin) + 1
        line_end = chunk.find(b"\n", begin)
        line_end = len(chunk) if line_end < 0 else line_end
        found.append(Candidate(start, min(match.end(), line_end), index))
        position = max(line_end + 1, start + skip)
        if position > len(chunk):
            break
    return found


def load_engine(patterns: Sequence[Pattern]) -> Engine:
    """Return the fastest engine that runs here."""
    try:
        return HyperscanEngine(patterns)
    except ImportError:
        return ReEngine(patterns)
