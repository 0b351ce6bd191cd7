"""The whole of diagnosis, in the order in which it happens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

from firstfault.catalogue import load_catalogue
from firstfault.diagnosis.candidates import weigh
from firstfault.diagnosis.causality import Standing, rank_causes
from firstfault.diagnosis.cite import cite
from firstfault.diagnosis.confidence import calibrated, confidence_of
from firstfault.diagnosis.derive import derive
from firstfault.diagnosis.facts import Facts, gather_facts
from firstfault.diagnosis.ladder import build_ladder
from firstfault.diagnosis.missing import what_is_missing
from firstfault.diagnosis.objects import not_well
from firstfault.diagnosis.restarts import as_recovered, split_at_restart
from firstfault.diagnosis.run_reports import report_of_runs
from firstfault.diagnosis.runs import split_runs
from firstfault.diagnosis.transport import explain_transport
from firstfault.diagnosis.verdict import write_verdict
from firstfault.diagnosis.walls import join_servers, serving_of, wall_faults
from firstfault.diagnosis.xid import settle_xids
from firstfault.model import Evidence, TriageReport

if TYPE_CHECKING:
    from firstfault.scan import ScanResult

__all__ = ["diagnose"]

# Below this much support nothing is called a fault.
BLAME = 0.2
# Good signs this strong outweigh a weak suspicion.
WELL = 0.5
WEAK = 0.4
# Signs of a job at its start, and of one that works in spite of a line that complains.
RECOGNISED = 0.15
CLEARLY_WELL = 0.28
# Further faults are reported beside the first when they are seen as well as this.
INDEPENDENT = 0.6
MOST_OTHERS = 5
MOST_UNEXPLAINED = 5


def diagnose(result: ScanResult) -> TriageReport:
    """Turn what a scan found into a report; of several runs each is diagnosed on its own."""
    runs = split_runs(result)
    if len(runs) == 1:
        return _diagnose_run(result)
    reports = [(run.folder, _diagnose_run(run.result)) for run in runs]
    return msgspec.structs.replace(report_of_runs(reports), sources=result.sources)


def _diagnose_run(result: ScanResult) -> TriageReport:
    """Diagnose one run: as a whole, unless it was started again in the same logs and only one of its starts failed."""
    parts = split_at_restart(result)
    if parts is not None:
        before, since = _diagnose(parts[0]), _diagnose(parts[1])
        if (before.status, since.status) == ("fault", "healthy"):
            return as_recovered(before, parts[2])
        if (before.status, since.status) == ("healthy", "fault"):
            return since
    return _diagnose(result)


def _diagnose(result: ScanResult) -> TriageReport:
    catalogue = load_catalogue()
    facts = gather_facts(settle_xids(result.observations), catalogue)
    facts.servers = join_servers(facts)
    for fault in wall_faults(facts.servers):
        facts.add_fault(fault)
    standing = rank_causes(weigh(facts, derive(facts)), catalogue)
    status = _status(standing, facts)
    if status == "healthy" and any(problem.fatal for problem in result.problems):
        status = "unknown"  # of what was not read nobody can say that it is well
    if standing is None or status != "fault":
        missing = (
            what_is_missing(facts, result.sources, None, result.set_aside, unread=bool(result.problems))
            if status == "unknown"
            else []
        )
        return TriageReport(
            status=status,
            verdict=None,
            ladder=build_ladder(facts, catalogue, None),
            sources=result.sources,
            missing=missing,
            unexplained=_unexplained(facts) if status == "unknown" else [],
            transport=explain_transport(facts, cite),
            serving=serving_of(facts.servers, cite),
            set_aside=result.set_aside,
            problems=_problems(result),
        )
    transport = explain_transport(facts, cite)
    first = standing.first
    others = [one for one in standing.independent if one.support >= INDEPENDENT][:MOST_OTHERS]
    return TriageReport(
        status="fault",
        verdict=write_verdict(first, confidence_of(standing), standing, facts, catalogue, cite, transport),
        others=[
            write_verdict(one, calibrated(one.support * 0.8), standing, facts, catalogue, cite, None) for one in others
        ],
        ladder=build_ladder(facts, catalogue, first.cause),
        sources=result.sources,
        missing=what_is_missing(facts, result.sources, first.cause),
        transport=transport,
        serving=serving_of(facts.servers, cite),
        set_aside=result.set_aside,
        problems=_problems(result),
    )


def _unexplained(facts: Facts) -> list[Evidence]:
    """The first lines that complain, those that differ in numbers only once."""
    by_words = {re.sub(r"\d+", "0", item.text): item for item in reversed(facts.signals.get("suspicion.line", []))}
    return [cite(item) for item in list(reversed(by_words.values()))[:MOST_UNEXPLAINED]]


def _problems(result: ScanResult) -> list[str]:
    return [problem.error for problem in result.problems]


def _status(standing: Standing | None, facts: Facts) -> Literal["fault", "healthy", "unknown"]:
    support = standing.first.support if standing else 0.0
    health = facts.health
    going_down = facts.has("process.going-down")
    failed = going_down or facts.has("watchdog.timeout", "python.traceback", "container.crash-loop")
    if support >= BLAME and (failed or support >= WEAK or health < WELL):
        return "fault"
    doubtful = going_down or (facts.has("suspicion.line") and health < CLEARLY_WELL)
    if health < RECOGNISED or not facts.shows_work or doubtful:
        return "unknown"
    return "unknown" if not_well(facts) else "healthy"  # the good word of one Pod excuses no other
