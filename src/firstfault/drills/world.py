"""What the phase machine needs of a world, whatever it is made of: namespaces on this machine, or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from firstfault.drills.jobs import Process
    from firstfault.model.drill import ProbeResult

__all__ = ["RankExit", "Snapshot", "World"]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration as the kernel (or the cloud) has it.

    Attributes:
        firewall: Number of rules by group and direction.
        refused: Packets that no rule allowed, by direction.
        digest: Equal digests mean equal configurations, counters left out.
        observed: What else was seen beside the job, for expectations to compare (`controllers.<name>`).
    """

    firewall: dict[str, dict[str, int]]
    refused: dict[str, int]
    digest: str
    observed: dict[str, Any] = {}


class RankExit(NamedTuple):
    """A rank has ended: which, how (negative: the signal), and when (seconds since the epoch)."""

    rank: int
    code: int
    time: float


class World(Protocol):
    """Where a drill takes place. Injectors ask for more, each for what it needs.

    Attributes:
        kind: Name of the world in `--world` and in the journal.
        temporary: A folder for temporary files of the job.
        ends_faults: Whether every fault in it ends with the world itself; if not, an undo that failed stays owed.
    """

    kind: str
    temporary: Path
    ends_faults: bool

    def open(self) -> dict[str, Any]:
        """Make it ready; return what a later process needs to find what is left of it (plain data)."""

    def close(self) -> list[str]:
        """End it; return what is left behind, one sentence each."""

    def snapshot(self) -> Snapshot:
        """Read the configuration back."""

    def probe(self, *, patient: bool = False) -> list[ProbeResult]:
        """Measure which paths are open. Only while no job runs; `patient` where all should be."""

    def start(self, job: Sequence[Process], logs: Path) -> None:
        """Start a job; each process's output goes to its file under `logs`."""

    def poll(self, seconds: float) -> RankExit | None:
        """Wait so long for a rank to end."""

    def examine(self, logs: Path, *, stuck_s: float) -> None:
        """Called while a job runs: collect under `logs` what a person would collect of a job silent for so long."""

    def end_job(self) -> None:
        """End whatever of the job still runs."""
