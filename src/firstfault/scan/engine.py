"""Finds candidate lines: which patterns may match where, over raw bytes, many patterns at once.

Two engines with one face. Hyperscan (Vectorscan) sees all patterns in one pass and lets go of the interpreter lock
while it scans. It goes twice: a sieve of plain literals over everything (some gigabytes a second), then the patterns
themselves over the few lines that stay in it. Where Hyperscan does not run, Python's `re` goes over the buffer once
per pattern one of whose literals occurs in it.

Both may report too much (they do not know where a line's prefix ends); `Pattern.confirm` decides on the line. They
never report too little, except for patterns of which one line per piece is wanted: there only the first line of each
piece that holds one of their literals is looked at.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from firstfault.catalogue import content_key, load_bytes, store_bytes
from firstfault.scan.literals import ignores_case, required_literals

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.scan.patterns import Pattern

__all__ = ["Candidate", "Engine", "HyperscanEngine", "ReEngine", "load_engine"]

# With more hits of the sieve than one in so many bytes, the patterns themselves are faster over all of it.
DENSE = 160


class Candidate(NamedTuple):
    """A pattern that may match on a line: where the line starts, where the match ends, which pattern it is."""

    start: int
    end: int
    pattern: int


class Engine(Protocol):
    """What scan needs of an engine."""

    def find(self, chunk: bytes, piece: int = 0) -> list[Candidate]:
        """Return the candidates of a chunk, ordered, one per line and pattern.

        Safe to call from several threads at once.

        Args:
            chunk: Whole lines, ended by newlines.
            piece: Of patterns of which one is enough, look for one in so many bytes; 0: one in the chunk.
        """
        ...


class HyperscanEngine:
    """All patterns in one Hyperscan database, their literals in another; both compiled once and cached.

    Args:
        patterns: The table; indexes in it are what `find` reports.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        import hyperscan  # noqa: PLC0415 - 12 ms, and not on every platform

        self._hyperscan = hyperscan
        self._local = threading.local()
        self._patterns = self._database("patterns", [self._pattern_row(pattern) for pattern in patterns])
        self._sieve = self._database("sieve", self._sieve_rows(patterns))

    def find(self, chunk: bytes, piece: int = 0) -> list[Candidate]:
        """Scan one chunk."""
        if not piece or len(chunk) <= piece:
            return self._find(chunk, 0)
        found: list[Candidate] = []
        start = 0
        while start < len(chunk):
            stop = chunk.find(b"\n", start + piece) + 1 or len(chunk)
            found += self._find(chunk[start:stop], start)
            start = stop
        return found

    def _find(self, part: bytes, base: int) -> list[Candidate]:
        ends: list[int] = []
        keep = ends.append
        self._scan("sieve", self._sieve, part, lambda _index, _start, end, _flags, _context: keep(end))
        if not ends:
            return []
        if len(ends) > len(part) // DENSE:
            return _by_line(part, self._matches(part), [0], [base])
        starts, lines = _cut_out(part, ends)
        positions: list[int] = []
        position = 0
        for line in lines:
            positions.append(position)
            position += len(line) + 1
        buffer = b"\n".join(lines)
        shifts = [base + start - position for start, position in zip(starts, positions, strict=True)]
        return _by_line(buffer, self._matches(buffer), positions, shifts)

    def _matches(self, buffer: bytes) -> list[tuple[int, int]]:
        hits: list[tuple[int, int]] = []
        keep = hits.append
        self._scan("match", self._patterns, buffer, lambda index, _start, end, _flags, _context: keep((end, index)))
        return hits

    def _scan(self, name: str, database: Any, buffer: bytes, on_match: Any) -> None:
        scratch = getattr(self._local, name, None)
        if scratch is None:
            scratch = self._hyperscan.Scratch(database)
            setattr(self._local, name, scratch)
        database.scan(buffer, match_event_handler=on_match, scratch=scratch)

    def _pattern_row(self, pattern: Pattern) -> tuple[str, int]:
        flags: int = self._hyperscan.HS_FLAG_MULTILINE
        return pattern.superset, flags | (self._hyperscan.HS_FLAG_CASELESS if pattern.ignore_case else 0)

    def _sieve_rows(self, patterns: Iterable[Pattern]) -> list[tuple[str, int]]:
        """The literals of all patterns, each once; a pattern without selective ones stands in the sieve itself."""
        caseless, once = self._hyperscan.HS_FLAG_CASELESS, self._hyperscan.HS_FLAG_SINGLEMATCH
        rows: dict[tuple[str, int], int] = {}
        for pattern in patterns:
            single = once if pattern.first_only else 0
            literals = required_literals(pattern.superset, once=pattern.first_only)
            if literals is None:
                expression, flags = self._pattern_row(pattern)
                rows[expression, flags & ~once] = flags | single
                continue
            case = caseless if pattern.ignore_case or ignores_case(pattern.regex) else 0
            for literal in literals:
                # One pattern that wants every line decides against "once" for all that share the literal.
                key = (re.escape(literal), case)
                rows[key] = rows.get(key, once) & (case | single) | case
        return sorted((expression, flags) for (expression, _), flags in rows.items())

    def _database(self, kind: str, rows: list[tuple[str, int]]) -> Any:
        hyperscan = self._hyperscan
        table = "\0".join(f"{flags}\1{expression}" for expression, flags in rows)
        key = content_key(table.encode(), hyperscan.__version__.encode())
        if blob := load_bytes(kind, key):
            try:
                return hyperscan.loadb(blob, hyperscan.HS_MODE_BLOCK)
            except hyperscan.HyperscanError:
                pass  # built for another processor or library: compile it here
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(
            expressions=[expression.encode() for expression, _ in rows],
            ids=list(range(len(rows))),
            flags=[flags for _, flags in rows],
        )
        store_bytes(kind, key, hyperscan.dumpb(database))
        return database


def _cut_out(part: bytes, ends: list[int]) -> tuple[list[int], list[bytes]]:
    """Return the lines on which the sieve's hits end, each once: where they start, and their bytes."""
    starts: list[int] = []
    lines: list[bytes] = []
    stop = -1
    for end in sorted(ends):
        if end <= stop:
            continue
        start = part.rfind(b"\n", 0, end - 1) + 1
        stop = part.find(b"\n", end - 1)
        stop = len(part) if stop < 0 else stop
        starts.append(start)
        lines.append(part[start:stop])
    return starts, lines


def _by_line(buffer: bytes, hits: list[tuple[int, int]], positions: list[int], shifts: list[int]) -> list[Candidate]:
    """Turn (end, pattern) pairs into candidates, one per line and pattern.

    Args:
        buffer: What was scanned.
        hits: Where matches end in it.
        positions: Offsets in the buffer from which on another shift holds.
        shifts: What to add to an offset of the buffer for the offset in the chunk.
    """
    found: list[Candidate] = []
    done: set[tuple[int, int]] = set()
    for end, pattern in sorted(hits):
        start = buffer.rfind(b"\n", 0, max(end - 1, 0)) + 1
        if (start, pattern) not in done:
            done.add((start, pattern))
            shift = shifts[bisect_right(positions, start) - 1]
            found.append(Candidate(start + shift, end + shift, pattern))
    return found


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
            literals = [
                literal.lower().encode() if ignore_case else literal.encode()
                for literal in required_literals(pattern.superset, once=pattern.first_only) or ()
            ]
            compiled = re.compile(pattern.superset.encode(), flags)
            self._rows.append((index, literals, compiled, ignore_case, pattern.first_only))

    def find(self, chunk: bytes, piece: int = 0) -> list[Candidate]:
        """Scan one chunk."""
        found: list[Candidate] = []
        lowered = chunk.lower()
        for index, literals, pattern, ignore_case, first_only in self._rows:
            where = lowered if ignore_case else chunk
            if literals and not any(literal in where for literal in literals):
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
        start = chunk.rfind(b"\n", 0, match.start()) + 1
        line_end = chunk.find(b"\n", match.start())
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
