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
    "Serving",
    "SetAside",
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
        ranks: Inclusive ranges, `[[0, 3], [7, 7]]`; empty where no line tells a rank.
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


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """An input whose text was not taken as output of a run.

    Attributes:
        kind: What it is: "documentation", "source-code", "prometheus-rules", "binary", "left out" (links, sockets), …
        why: One phrase; says so where it was read for what configuration files are evidence of.
    """

    name: str
    kind: str
    why: str


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """What would decide an open question, why, and the command that gets it."""

    what: str
    why: str
    command: str


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """What a vLLM server asks for, what it can have, and the length that fits: by its own log, or with a config.json.

    Attributes:
        source: Log of the server.
        model: As the log names it; "" where it does not.
        config: The `config.json` that was used; None where the log alone says it all, or none fits.
        wall: "max-position" (longer than the model allows), "kv-cache" (the cache of one request does not fit),
            "no-memory" (nothing is left for the cache), "none"; None where that cannot be told.
        requested: `max_model_len` as asked for, in tokens; None where it is not known.
        limit: What the model allows, in tokens.
        largest: The largest `max_model_len` that fits, as vLLM prints or would compute it; None where not known.
        safe: The same, whatever the log rounded off. Equal to `largest` where nothing was rounded.
        needed_bytes: KV cache of one request of `requested` tokens on one GPU.
        available_bytes: Memory for the KV cache on one GPU.
        exact: Whether `largest` is vLLM's own figure or equal to it for sure.
        summary: One sentence with the numbers.
        unknown: Why `largest` could not be computed; "" where it was.
        evidence: The lines that the numbers come from.
    """

    source: str
    model: str = ""
    config: str | None = None
    wall: Literal["max-position", "kv-cache", "no-memory", "none"] | None = None
    requested: int | None = None
    limit: float | None = None
    largest: int | None = None
    safe: int | None = None
    needed_bytes: int | None = None
    available_bytes: int | None = None
    tensor_parallel_size: int = 1
    kv_cache_dtype: str = "auto"
    exact: bool = False
    summary: str = ""
    unknown: str = ""
    evidence: list[Evidence] = []


class TriageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that triage says. The same bytes in give the same bytes out.

    Attributes:
        transport: What NCCL's lines say about transports, also where nothing is wrong; the verdict repeats it.
        serving: One entry for each vLLM server of whose memory something is known.
        unexplained: Where the status is unknown: the first lines that complain and that no card knows.
        set_aside: Inputs whose text was not taken as output of a run, and why.
        problems: Inputs that could not be read, one sentence each. Exit code 2, whatever the others say.
    """

    schema: str = SCHEMA
    status: Literal["fault", "healthy", "unknown"]
    verdict: Verdict | None
    others: list[Verdict] = []
    ladder: Ladder
    sources: list[SourceInfo]
    missing: list[Missing] = []
    unexplained: list[Evidence] = []
    transport: Transport | None = None
    serving: list[Serving] = []
    set_aside: list[SetAside] = []
    problems: list[str] = []
