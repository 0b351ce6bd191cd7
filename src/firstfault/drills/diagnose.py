"""Asks triage, as a user would: a folder with one log per rank, and not a word about what was done."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from firstfault.waiting import completed

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model import TriageReport

__all__ = ["Diagnosis", "diagnose", "lowest_stop", "nccl_lines"]


def diagnose(logs: Path) -> TriageReport:
    """Return triage's report on a folder of logs."""
    # Imported here: a drill is planned and listed without the pattern engine.
    from firstfault.diagnosis import triage  # noqa: PLC0415

    return triage([logs])


class Diagnosis:
    """Diagnoses folders of logs, on request ahead of time: while ranks wait for their timeout, the processor is idle.

    On a machine's first run the pattern engine compiles its patterns, which takes seconds.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="triage")
        self._begun: dict[Path, Future[TriageReport]] = {}

    def begin(self, logs: Path) -> None:
        """Begin in the background."""
        self._begun[logs] = self._pool.submit(diagnose, logs)

    def report(self, logs: Path) -> TriageReport:
        """Return the report, and wait for it if it was begun."""
        if (begun := self._begun.get(logs)) is None:
            return diagnose(logs)
        return next(completed([begun])).result()

    def close(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def lowest_stop(report: TriageReport) -> str | None:
    """Return the rung on which the first rank stopped; None when every rank finished or nothing is known.

    Ranks that say why they stopped come before those that went quiet, of which only a lower bound is known.
    """
    from firstfault.diagnosis import WENT_QUIET  # noqa: PLC0415 - as above

    order = {rung: place for place, rung in enumerate(report.ladder.rungs)}
    stopped = [group for group in report.ladder.groups if group.stopped_at]
    told = [group for group in stopped if group.why != WENT_QUIET]
    stops = [group.stopped_at for group in told or stopped if group.stopped_at]
    return min(stops, key=lambda rung: order.get(rung, len(order)), default=None)


def nccl_lines(logs: Path) -> int:
    """Count the lines that NCCL printed at INFO in a folder of logs."""
    return sum(path.read_bytes().count(b"NCCL INFO") for path in logs.glob("*.log"))
