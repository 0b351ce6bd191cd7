"""The report of `firstfault drill run` (schema "firstfault.drill/1"). Field meanings are part of the JSON contract."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.triage import Ladder, Transport, Verdict

__all__ = [
    "SCHEMA",
    "Change",
    "ChangedRule",
    "Detection",
    "DrillReport",
    "Phase",
    "ProbeResult",
    "RankResult",
    "Row",
]

SCHEMA = "firstfault.drill/1"


class RankResult(msgspec.Struct, frozen=True, kw_only=True):
    """How one rank ended.

    Attributes:
        rank: Global rank (with a launcher that starts several ranks: the first of its node).
        host: Host name of its node.
        exit_code: Exit code, negative for a signal; None when it hung and the drill ended it at its deadline.
        sums: What the bundled program printed as `sum-first`, iteration by iteration.
        seconds: From its start to its end.
        log: Name of its log file.
        last_lines: What a rank that failed without a fault said last: in the baseline, or after the restoration.
    """

    rank: int
    host: str
    exit_code: int | None
    sums: list[float]
    seconds: float
    log: str = ""
    last_lines: list[str] = []


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """One connection attempt between two nodes, to a real listener.

    Attributes:
        id: Name of the probe in the topology.
        source: Node that connected; `from` in JSON.
        target: Node that listened; `to` in JSON.
        result: open · dropped: no answer · refused: answered with a reset · unreachable: answered by ICMP.
        reachable: True when `result` is open.
    """

    id: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    protocol: Literal["tcp", "udp"]
    port: int
    title: str
    result: Literal["open", "dropped", "refused", "unreachable"]
    reachable: bool
    seconds: float


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the job with what was measured around it.

    Attributes:
        firewall: Rules by security group and direction, read back from the kernel (or the cloud).
        refused: Packets that no rule allowed, by direction, read back from the kernel.
        triage: What triage said about this phase's logs alone: healthy, fault or unknown; None when it was not asked.
    """

    name: Literal["baseline", "injected", "restored"]
    started: str
    seconds: float
    ranks: list[RankResult]
    firewall: dict[str, dict[str, int]]
    probes: list[ProbeResult]
    refused: dict[str, int] = {}
    triage: str | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a comparison.

    Attributes:
        basis: scenario: decides the exit code · prediction: what a person would have guessed.
        note: Why it is partial, unverified or n/a.
    """

    item: str
    basis: Literal["scenario", "prediction"]
    expected: str
    measured: str
    match: Literal["yes", "no", "partial", "unverified", "n/a"]
    note: str = ""


class Detection(msgspec.Struct, frozen=True, kw_only=True):
    """Who noticed, and how many seconds after the fault was there; None: not noticed before the drill ended it."""

    detector: str
    seconds: float | None


class ChangedRule(msgspec.Struct, frozen=True, kw_only=True):
    """One security-group rule that the injection added or destroyed."""

    action: Literal["add", "destroy"]
    group: str
    direction: str
    ports: str
    peer: str
    title: str
    role: str


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What the injection does, as a plan shows it beforehand.

    Attributes:
        summary: "0 to add, 0 to change, 8 to destroy"; "" when no rules are involved.
        rules: The rules of that summary.
        steps: Everything else, one sentence each.
    """

    summary: str = ""
    rules: list[ChangedRule] = []
    steps: list[str] = []


class DrillReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a drill measured.

    Attributes:
        status: Triage's status on the logs of the injected phase: fault, healthy, unknown; None: not reached.
        ladder: Triage's ladder for the injected phase.
        transport: What triage read about transports in the baseline's logs; None when they say nothing.
        as_expected: Every row with basis `scenario` matched.
        restored: Probes, configuration and job equal the baseline, and nothing was left behind.
        left_behind: What remains on the machine; normally nothing.
        journal: Where the journal of this run is.
        logs: Folder with the logs of all phases.
    """

    schema: str = SCHEMA
    drill: str
    title: str
    world: str
    backend: str
    launcher: str
    started: str
    seconds: float
    change: Change
    phases: list[Phase]
    status: str | None
    verdict: Verdict | None
    ladder: Ladder | None
    transport: Transport | None
    expected_vs_measured: list[Row]
    recovery: list[Row]
    detection: list[Detection]
    as_expected: bool
    restored: bool
    left_behind: list[str]
    journal: str
    logs: str
