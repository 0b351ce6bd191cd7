"""Follows the log files of a running job: for triggers, for progress, and to know when a line appeared."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.drills.jobs import Process

__all__ = ["Line", "LogTail", "last_lines", "step_seconds", "sums_in"]

_MAX_LINES = 200_000
_MAX_READ = 1 << 20
_LAST_BYTES, _LAST_LINES, _LAST_COLUMNS = 8192, 5, 300
_STEP = re.compile(rb"^\[rank \d+\] iter (\d+) .*\bseconds=(\d+\.\d+)", re.MULTILINE)
_SUM = re.compile(r"^\[rank (\d+)\] iter (\d+) sum-first=(\S+)")


class Line(NamedTuple):
    """One line as it appeared: rank, 1-based number, when it was seen (seconds since the epoch), text."""

    rank: int
    number: int
    seen: float
    text: str


class LogTail:
    """Reads what ranks have printed since the last look.

    Attributes:
        seen: When each line was seen, by log file name and line number.
    """

    def __init__(self, job: list[Process], logs: Path) -> None:
        self._files = {process.rank: logs / process.log for process in job}
        self._offsets = dict.fromkeys(self._files, 0)
        self._partial = dict.fromkeys(self._files, b"")
        self._counts = dict.fromkeys(self._files, 0)
        self.seen: dict[tuple[str, int], float] = {}

    def read(self) -> list[Line]:
        """Return the complete lines that are new."""
        found: list[Line] = []
        now = time.time()
        for rank, path in self._files.items():
            try:
                with path.open("rb") as stream:
                    stream.seek(self._offsets[rank])
                    data = stream.read(_MAX_READ)
            except OSError:
                continue
            if not data:
                continue
            self._offsets[rank] += len(data)
            *lines, self._partial[rank] = (self._partial[rank] + data).split(b"\n")
            for line in lines:
                self._counts[rank] += 1
                if len(self.seen) < _MAX_LINES:
                    self.seen[path.name, self._counts[rank]] = now
                found.append(Line(rank, self._counts[rank], now, line.decode(errors="replace")))
        return found


def sums_in(path: Path, rank: int) -> list[float]:
    """Return the sums that a rank of the bundled program printed, iteration by iteration."""
    sums: list[float] = []
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return sums
    for line in text.splitlines():
        found = _SUM.match(line)
        if found and int(found[1]) == rank:
            try:
                sums.append(float(found[3]))
            except ValueError:
                continue
    return sums


def last_lines(path: Path) -> list[str]:
    """Return the last lines that a rank said, long ones cut; what is not text is replaced."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - _LAST_BYTES))
            text = stream.read(_LAST_BYTES).decode(errors="replace")
    except OSError:
        return []
    lines = [line.rstrip() for line in text.splitlines()]
    return [line[:_LAST_COLUMNS] for line in lines if line][-_LAST_LINES:]


def step_seconds(logs: Path) -> float | None:
    """Return the mean seconds per step that the ranks of the bundled program printed; None when they printed none.

    The first step is left out: it makes connections.
    """
    found = [
        float(seconds)
        for path in logs.glob("*.log")
        for step, seconds in _STEP.findall(path.read_bytes())
        if int(step) > 0
    ]
    return sum(found) / len(found) if found else None
