"""The report of `firstfault smoke` (schema "firstfault.smoke/1")."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.triage import Transport, Verdict

__all__ = ["RUNGS", "SCHEMA", "RungName", "RungResult", "SmokeReport"]

SCHEMA = "firstfault.smoke/1"
RungName = Literal["name", "tcp", "store", "init", "collective", "bandwidth", "transport"]
RUNGS: tuple[RungName, ...] = ("name", "tcp", "store", "init", "collective", "bandwidth", "transport")
"""The rungs in the order in which they are climbed."""


class RungResult(msgspec.Struct, frozen=True, kw_only=True):
    """How one rung went.

    Attributes:
        ok: True: climbed · False: failed · None: not looked at, and `why` says why not.
        peer: The other end, where there is one.
        seconds: How long it took.
        why: One sentence.
    """

    rung: RungName
    ok: bool | None
    seconds: float
    why: str
    peer: str = ""


class SmokeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one rank measured.

    Attributes:
        status: ok: every rung that was looked at was climbed · fault · unknown: the peers did not come, and nothing
            shows why.
        seconds: From the first rung to the result.
        diagnosis_seconds: From the first sign of a peer, or of a refused or unanswered attempt, to the failing rung's
            end; None when nothing failed.
        bus_bandwidth: Bytes per second of all_reduce, by the formula of nccl-tests (2(n-1)/n of the algorithm's).
        bandwidth_floor: What it must not be below; None: no floor is known.
        chosen: Transport between nodes as NCCL logged it; None when not known.
        expected: Transport that should have been chosen; None when not stated and not known.
    """

    schema: str = SCHEMA
    status: Literal["ok", "fault", "unknown"]
    rank: int
    world_size: int
    host: str
    backend: str
    seconds: float
    rungs: list[RungResult]
    verdict: Verdict | None
    diagnosis_seconds: float | None = None
    transport: Transport | None = None
    bus_bandwidth: float | None = None
    bandwidth_floor: float | None = None
    chosen: str | None = None
    expected: str | None = None
    logs: str | None = None
