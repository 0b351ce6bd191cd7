"""A run that failed and was started again in the same logs: what came before its last start, and what came since."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from firstfault.model import Observation, TriageReport
    from firstfault.scan import ScanResult

__all__ = ["as_recovered", "split_at_restart"]

# A fault that the job got over is named with less than this.
OVERCOME = 0.75
_PROCESS = re.compile(r"(?P<host>.+):(?P<pid>\d+)\[(?P<device>\d+)\]$")
_Slot = tuple[str, ...]


def split_at_restart(result: ScanResult) -> tuple[ScanResult, ScanResult, Observation] | None:
    """What stands before and behind the last start of a job that was started again, and the line of that start.

    A rank begins again where it says `[init]` once more, or where another process on the same host and GPU takes its
    place in NCCL. None where not every rank of every log did, or where processes of before still speak afterwards.
    """
    starts: dict[str, dict[_Slot, list[Observation]]] = defaultdict(lambda: defaultdict(list))
    for item in result.observations:
        slot = _slot_of(item)
        if slot is not None and item.order is not None:
            starts[item.source][slot].append(item)
    again = {source: _last_start(slots) for source, slots in starts.items()}
    bounds = {source: line for source, line in again.items() if line is not None}
    if not bounds or len(bounds) < len(again):
        return None
    before = [item for item in result.observations if not _is_since(item, bounds)]
    since = [item for item in result.observations if _is_since(item, bounds) or item.source not in bounds]
    if {item.stream for item in before if _PROCESS.match(item.stream)} & {item.stream for item in since}:
        return None
    first = next(iter(bounds.values()))
    return (
        msgspec.structs.replace(result, observations=before),
        msgspec.structs.replace(result, observations=since),
        first,
    )


def _slot_of(item: Observation) -> _Slot | None:
    """The place in the job that a line of a start takes; None for any other line."""
    if item.signature == "signal/world.rank" and "rank" in item.fields:
        return ("stated", item.fields["rank"])
    if item.signature == "signal/nccl.init-start" and (process := _PROCESS.match(item.stream)):
        return ("nccl", item.fields["rank"], item.fields["world"], process["host"], process["device"])
    return None


def _last_start(slots: dict[_Slot, list[Observation]]) -> Observation | None:
    """The line with which all ranks of a log begin anew; None where not all of them do."""
    stated = {slot: lines for slot, lines in slots.items() if slot[0] == "stated"}
    found = []
    for lines in (stated or slots).values():
        anew = lines[-1]
        if anew.order == lines[0].order or (not stated and lines[0].stream == anew.stream):
            return None
        if not stated:  # the first communicator of the last process
            anew = next(line for line in lines if line.stream == anew.stream)
        found.append(anew)
    return min(found, key=lambda line: line.order or 0)


def _is_since(item: Observation, bounds: dict[str, Observation]) -> bool:
    bound = bounds.get(item.source)
    return bound is not None and item.order is not None and item.order >= (bound.order or 0)


def as_recovered(before: TriageReport, start: Observation) -> TriageReport:
    """The report on the fault of a run that was well after its last start."""
    if before.verdict is None:
        return before
    where = f"{start.source}:{start.line}" if start.line is not None else start.source
    said = f"{before.verdict.summary} The job was started again at {where}, and from there on it is seen at work."
    verdict = msgspec.structs.replace(before.verdict, summary=said, confidence=min(before.verdict.confidence, OVERCOME))
    return msgspec.structs.replace(before, verdict=verdict)
