"""Faults of a rank's process: a signal from outside, or too little memory."""

from __future__ import annotations

import signal
from typing import Any, Literal, Protocol

from firstfault.drills.injectors.base import Injector
from firstfault.model.drill import Change

__all__ = ["AddressSpaceLimit", "SignalRank"]

SignalName = Literal["SIGKILL", "SIGTERM", "SIGSEGV", "SIGSTOP", "SIGABRT", "SIGHUP", "SIGINT"]


class _Processes(Protocol):
    """What these need of a world: its running ranks, by their process in the world."""

    net: Any
    jobs: dict[int, int]


class SignalRank(Injector, frozen=True, kw_only=True, tag="signal"):
    """Sends a signal to one rank's program. With `start`, in the middle of the job.

    Attributes:
        rank: The rank.
        signal: The signal.
    """

    rank: int
    signal: SignalName

    def describe(self, world: _Processes) -> Change:  # noqa: ARG002 - the same in every world
        """Name the signal."""
        return Change(steps=[f"send {self.signal} to the program of rank {self.rank}"])

    def prepare(self, world: _Processes) -> dict[str, Any]:
        """Record the process, so that a stopped one can be continued."""
        return {"job": world.jobs.get(self.rank), "stopped": self.signal == "SIGSTOP"}

    def inject(self, world: _Processes) -> None:
        """Send it; a rank that has ended already cannot be hit."""
        if self.rank in world.jobs:
            world.net.signal_program(world.jobs[self.rank], signal.Signals[self.signal])

    @classmethod
    def undo(cls, world: _Processes, record: dict[str, Any]) -> None:
        """Continue a stopped process; the other signals end one, and the next job has new ones."""
        if record["stopped"] and record["job"] in world.jobs.values():
            world.net.signal_program(record["job"], signal.SIGCONT)


class AddressSpaceLimit(Injector, frozen=True, kw_only=True, tag="address-space-limit"):
    """Limits the memory that one rank's program may map (RLIMIT_AS), below what it needs.

    Attributes:
        rank: The rank.
        headroom_bytes: How much more than now it may map.
    """

    rank: int
    headroom_bytes: int

    def describe(self, world: _Processes) -> Change:  # noqa: ARG002 - the same in every world
        """Name the limit."""
        return Change(steps=[f"let rank {self.rank} map {self.headroom_bytes:,} bytes more (RLIMIT_AS)"])

    def prepare(self, world: _Processes) -> dict[str, Any]:  # noqa: ARG002
        """The limit ends with the process."""
        return {}

    def inject(self, world: _Processes) -> None:
        """Set it on the running process."""
        if self.rank in world.jobs:
            world.net.limit_memory(world.jobs[self.rank], self.headroom_bytes)

    @classmethod
    def undo(cls, world: _Processes, record: dict[str, Any]) -> None:
        """Nothing: the limit was the process's own."""
