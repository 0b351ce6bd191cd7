"""One report of several runs: that of the run with the fault, and in a sentence what became of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from firstfault.model.safe_text import safe_text

if TYPE_CHECKING:
    from firstfault.model import TriageReport, Verdict

__all__ = ["report_of_runs"]

# So many of the other runs are named.
MOST_NAMED = 4


def report_of_runs(reports: list[tuple[str, TriageReport]]) -> TriageReport:
    """Return the report on all runs.

    Args:
        reports: (folder, report) of each run.

    Returns:
        The report on the run that failed: of several the one that failed first, where the times of all of them can be
        read, else the surest. What the others failed of is among its `others`. Where no run failed, the report on one
        of which the evidence does not say, if there is one: the health of a run says nothing of another.
    """
    faulty = [(folder, report, report.verdict) for folder, report in reports if report.verdict is not None]
    if not faulty:
        return next((report for _, report in reports if report.status == "unknown"), reports[0][1])
    times = [verdict.evidence[0].time or "" if verdict.evidence else "" for _, _, verdict in faulty]
    if all(times):
        folder, report, verdict = min(faulty, key=lambda one: one[2].evidence[0].time or "")
    else:
        folder, report, verdict = max(faulty, key=lambda one: one[2].confidence)
    others = {one.cause: one for one in report.others}
    for _, _, other in faulty:
        if other.cause != verdict.cause:
            others.setdefault(other.cause, other)
    said = f"{verdict.summary} {_of_which(folder, reports)}"
    return msgspec.structs.replace(
        report, verdict=msgspec.structs.replace(verdict, summary=said), others=list(others.values())
    )


def _of_which(folder: str, reports: list[tuple[str, TriageReport]]) -> str:
    """Say in which run the fault is, and what became of the others."""
    rest = [f"{safe_text(name)} {_fate(report)}" for name, report in reports if name != folder]
    more = f", and {len(rest) - MOST_NAMED} others" if len(rest) > MOST_NAMED else ""
    named = ", ".join(rest[:MOST_NAMED])
    return f"The input holds {len(reports)} runs; this is the one in {safe_text(folder)} ({named}{more})."


def _fate(report: TriageReport) -> str:
    verdict: Verdict | None = report.verdict
    if verdict is not None:
        return f"failed too: {verdict.cause}"
    return "shows no fault" if report.status == "healthy" else "does not say how it ended"
