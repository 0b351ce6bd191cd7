"""The report of `firstfault triage` (schema "firstfault.triage/1"). Field meanings are part of the JSON contract."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.evidence import Evidence

__all__ = [
    "SCHEMA",
    "Ladder",
    "LadderGroup",
    "Missing",
    "RuledOut",
    "SourceInfo",
    "Transport",
    "TransportOption",
    "TriageReport",
    "Verdict",
]

SCHEMA = "firstfault.triage/1"


class TransportOption(msgspec.Struct, frozen=True, kw_only=True):
    """One transport that NCCL could have used: NVLink/P2P, shared memory, IB/RDMA, EFA, socket."""

    name: str
    used: bool
    why: str
    evidence: Evidence | None = None


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """Which transports were tried, in NCCL's order, and which was chosen (None: the logs do not say)."""

    considered: list[TransportOption]
    chosen: str | None


class RuledOut(msgspec.Struct, frozen=True, kw_only=True):
    """A cause that somebody might suspect, and the reason why it is not the one."""

    cause: str
    why: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One named cause, what proves it, what followed from it and what to do.

    Attributes:
        cause: Cause id, `layer.subject.detail`.
        layer: First part of the cause id.
        confidence: 0 to 1, calibrated (docs/accuracy.md shows the reliability curve).
        consequences: What the reader also sees but need not chase, one sentence each.
    """

    cause: str
    layer: str
    title: str
    confidence: float
    summary: str
    evidence: list[Evidence]
    transport: Transport | None = None
    consequences: list[str] = []
    ruled_out: list[RuledOut] = []
    next_steps: list[str] = []
    fix: list[str] = []
    prevention: list[str] = []


class LadderGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks that climbed to the same rung and stopped for the same reason.

    Attributes:
        ranks: Inclusive ranges, `[[0, 3], [7, 7]]`.
        reached: The last rung that they are known to have reached, or None.
        stopped_at: The rung on which they stopped; None when they finished.
        why: One sentence.
    """

    ranks: list[list[int]]
    reached: str | None
    stopped_at: str | None
    why: str


class Ladder(msgspec.Struct, frozen=True, kw_only=True):
    """The rungs in the order that this job climbs them, and the groups of ranks on them."""

    rungs: list[str]
    groups: list[LadderGroup]


class SourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One source that was read. `kind` is detected from content, never from the name."""

    name: str
    kind: str
    bytes: int
    lines: int | None


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """What would decide an open question, why, and the command that gets it."""

    what: str
    why: str
    command: str


class TriageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that triage says. The same bytes in give the same bytes out.

    Attributes:
        transport: What NCCL's lines say about transports, also where nothing is wrong; the verdict repeats it.
        problems: Inputs that could not be read, one sentence each. Exit code 2, whatever the others say.
    """

    schema: str = SCHEMA
    status: Literal["fault", "healthy", "unknown"]
    verdict: Verdict | None
    others: list[Verdict] = []
    ladder: Ladder
    sources: list[SourceInfo]
    missing: list[Missing] = []
    transport: Transport | None = None
    problems: list[str] = []
