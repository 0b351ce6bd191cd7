"""Finds candidate lines: which patterns may match where, over raw bytes, many patterns at once.

Two engines with one face. Hyperscan (Vectorscan) sees all patterns in one pass at a gigabyte a second and lets go of
the interpreter lock while it scans. Where it does not run, Python's `re` goes over the buffer once per pattern whose
literal occurs in it. Both may report too much (they do not know where a line's prefix ends), never too little;
`Pattern.confirm` decides on the line.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any, Protocol

from firstfault.catalogue import content_key, load_bytes, store_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.scan.patterns import Pattern

__all__ = ["Engine", "HyperscanEngine", "ReEngine", "load_engine"]


class Engine(Protocol):
    """What scan needs of an engine."""

    def find(self, chunk: bytes) -> list[tuple[int, int]]:
        """Return (end offset, pattern index) of every candidate, in any order, possibly several for one line.

        Line ends in the chunk are newlines. Safe to call from several threads at once.
        """
        ...


class HyperscanEngine:
    """All patterns in one Hyperscan database, compiled once and cached.

    Args:
        patterns: The table; indexes in it are what `find` reports.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        import hyperscan  # noqa: PLC0415 - 12 ms, and not on every platform

        self._hyperscan = hyperscan
        self._local = threading.local()
        table = "\0".join(f"{row.superset}\1{row.ignore_case}{row.first_only}" for row in patterns)
        key = content_key(table.encode(), hyperscan.__version__.encode())  # type: ignore[attr-defined]
        self._database = self._load(key) or self._compile(patterns, key)

    def find(self, chunk: bytes) -> list[tuple[int, int]]:
        """Scan one chunk."""
        hits: list[tuple[int, int]] = []
        append = hits.append

        def on_match(index: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append((end, index))

        scratch = getattr(self._local, "scratch", None)
        if scratch is None:
            scratch = self._local.scratch = self._hyperscan.Scratch(self._database)
        self._database.scan(chunk, match_event_handler=on_match, scratch=scratch)
        return hits

    def _load(self, key: str) -> Any | None:
        blob = load_bytes("patterns", key)
        if blob is None:
            return None
        try:
            return self._hyperscan.loadb(blob, self._hyperscan.HS_MODE_BLOCK)
        except self._hyperscan.HyperscanError:
            return None  # built for another processor or library: compile it here

    def _compile(self, patterns: Sequence[Pattern], key: str) -> Any:
        database = self._hyperscan.Database(mode=self._hyperscan.HS_MODE_BLOCK)
        database.compile(
            expressions=[row.superset.encode() for row in patterns],
            ids=list(range(len(patterns))),
            flags=[self._flags(row) for row in patterns],
        )
        store_bytes("patterns", key, self._hyperscan.dumpb(database))
        return database

    def _flags(self, row: Pattern) -> int:
        flags: int = self._hyperscan.HS_FLAG_MULTILINE
        if row.ignore_case:
            flags |= self._hyperscan.HS_FLAG_CASELESS
        if row.first_only:
            flags |= self._hyperscan.HS_FLAG_SINGLEMATCH
        return flags


class ReEngine:
    """Python's `re`, one pattern at a time, skipping those whose literal is nowhere in the chunk.

    Args:
        patterns: The table; indexes in it are what `find` reports.
    """

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._rows = [
            (
                index,
                required_literal(row.superset).encode(),
                re.compile(row.superset.encode(), re.MULTILINE | (re.IGNORECASE if row.ignore_case else 0)),
                row.ignore_case,
                row.first_only,
            )
            for index, row in enumerate(patterns)
        ]

    def find(self, chunk: bytes) -> list[tuple[int, int]]:
        """Scan one chunk."""
        hits: list[tuple[int, int]] = []
        lowered = chunk.lower()
        for index, literal, pattern, ignore_case, first_only in self._rows:
            if literal and (literal.lower() not in lowered if ignore_case else literal not in chunk):
                continue
            if first_only:
                if found := pattern.search(chunk):
                    hits.append((_end_on_line(found, chunk), index))
                continue
            hits += _ends_by_line(pattern, chunk, index)
        return hits


def _ends_by_line(pattern: re.Pattern[bytes], chunk: bytes, index: int) -> list[tuple[int, int]]:
    """Every line on which a pattern begins. Matches are sought anew on each line: one over a line end hides none."""
    ends = []
    position = 0
    while found := pattern.search(chunk, position):
        ends.append((_end_on_line(found, chunk), index))
        position = chunk.find(b"\n", found.start()) + 1
        if not position:
            break
    return ends


def _end_on_line(found: re.Match[bytes], chunk: bytes) -> int:
    """The end of a match, or of the line on which it begins if that comes first."""
    line_end = chunk.find(b"\n", found.start())
    return found.end() if line_end < 0 else min(found.end(), line_end)


def required_literal(regex: str) -> str:
    """Return the longest run of plain characters that every match must contain; "" when none is sure.

    It looks only outside of groups and classes, so it is a lower bound, cheap and safe.
    """
    best = run = ""
    depth = 0
    position = 0
    while position < len(regex):
        char = regex[position]
        plain = ""
        step = 1
        if char == "\\":
            step = 2
            following = regex[position + 1 : position + 2]
            plain = following if following and not following.isalnum() else ""
        elif char == "[":
            step = _class_end(regex, position) - position
        elif char == "|" and depth == 0:
            return ""
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char not in ".^$*+?{}":
            plain = char
        optional = regex[position + step : position + step + 1] in ("?", "*", "{")
        if depth == 0 and plain and not optional:
            run += plain
        else:
            best, run = max(best, run, key=len), ""
        if char == "{":
            step = max(regex.find("}", position) - position + 1, 1)
        position += step
    return max(best, run, key=len)


def _class_end(regex: str, start: int) -> int:
    position = start + 1
    if regex[position : position + 1] == "^":
        position += 1
    if regex[position : position + 1] == "]":
        position += 1
    while position < len(regex) and regex[position] != "]":
        position += 2 if regex[position] == "\\" else 1
    return position + 1


def load_engine(patterns: Sequence[Pattern]) -> Engine:
    """Return the fastest engine that runs here."""
    try:
        return HyperscanEngine(patterns)
    except ImportError:
        return ReEngine(patterns)
