"""Faults that lie in how a job is started: environment, ranks that never start, a port that somebody else holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from firstfault.drills.injectors.base import Injector
from firstfault.model.drill import Change

if TYPE_CHECKING:
    import socket
    from typing import Literal

    from firstfault.drills.scenario import Workload
    from firstfault.drills.topology import Topology

__all__ = ["EnvironmentChange", "HeldPort", "MissingRank"]


class EnvironmentChange(Injector, frozen=True, kw_only=True, tag="environment"):
    """Starts ranks with other environment variables. Nothing is left to undo when the job ends.

    Attributes:
        set: Variables and their values.
        unset: Variables that are taken away.
        ranks: The ranks that get it; empty: all.
    """

    set: dict[str, str] = msgspec.field(default_factory=dict)
    unset: list[str] = msgspec.field(default_factory=list)
    ranks: list[int] = msgspec.field(default_factory=list)

    def describe(self, world: Any) -> Change:  # noqa: ARG002 - the same in every world
        """Name the variables."""
        who = f"rank {', '.join(map(str, self.ranks))}" if self.ranks else "every rank"
        steps = [f"start {who} with {name}={value}" for name, value in self.set.items()]
        return Change(steps=[*steps, *(f"start {who} without {name}" for name in self.unset)])

    def adapt(self, workload: Workload) -> Workload:
        """Return the workload with the changed environment."""
        ranks = self.ranks or range(len(workload.ranks))
        env = {rank: {**workload.rank_env.get(rank, {}), **self.set} for rank in ranks}
        unset = {rank: [*workload.rank_unset.get(rank, []), *self.unset] for rank in ranks}
        return msgspec.structs.replace(
            workload, rank_env={**workload.rank_env, **env}, rank_unset={**workload.rank_unset, **unset}
        )

    def prepare(self, world: Any) -> dict[str, Any]:  # noqa: ARG002
        """Nothing outside the job changes."""
        return {}

    def inject(self, world: Any) -> None:
        """Nothing: the job is started differently."""

    @classmethod
    def undo(cls, world: Any, record: dict[str, Any]) -> None:
        """Nothing: the next job is started as usual."""


class MissingRank(Injector, frozen=True, kw_only=True, tag="missing-rank"):
    """Does not start some ranks, although the others count on them: a Pod that stays Pending, a replica too few.

    Attributes:
        ranks: The ranks that are not started.
    """

    ranks: list[int]

    def describe(self, world: Any) -> Change:  # noqa: ARG002 - the same in every world
        """Name the ranks."""
        return Change(steps=[f"do not start rank {rank}" for rank in self.ranks])

    def adapt(self, workload: Workload) -> Workload:
        """Return the workload without these ranks; the world size stays."""
        return msgspec.structs.replace(workload, missing=[*workload.missing, *self.ranks])

    def prepare(self, world: Any) -> dict[str, Any]:  # noqa: ARG002
        """Nothing outside the job changes."""
        return {}

    def inject(self, world: Any) -> None:
        """Nothing: the job is started differently."""

    @classmethod
    def undo(cls, world: Any, record: dict[str, Any]) -> None:
        """Nothing: the next job is started in full."""


class _Sockets(Protocol):
    """What a held port needs of a world: sockets in its nodes, and a place to keep them."""

    topology: Topology
    net: _Opens
    held: dict[str, socket.socket]


class _Opens(Protocol):
    def socket(self, where: str, kind: Literal["tcp", "udp"], bind: tuple[str, int] | None = None) -> socket.socket: ...


class HeldPort(Injector, frozen=True, kw_only=True, tag="held-port"):
    """Lets another process listen on a port of a node, as a job that was not cleaned up does.

    Attributes:
        node: The node.
        port: The TCP port.
    """

    node: str
    port: int

    def describe(self, world: _Sockets) -> Change:
        """Name the port."""
        return Change(steps=[f"listen on port {self.port} of {world.topology.node(self.node).hostname}"])

    def prepare(self, world: _Sockets) -> dict[str, Any]:  # noqa: ARG002
        """Record which socket to close."""
        return {"socket": f"{self.node}:{self.port}"}

    def inject(self, world: _Sockets) -> None:
        """Open the listener; it answers nobody."""
        world.held[f"{self.node}:{self.port}"] = world.net.socket(self.node, "tcp", ("0.0.0.0", self.port))  # noqa: S104

    @classmethod
    def undo(cls, world: _Sockets, record: dict[str, Any]) -> None:
        """Close it; it is closed already when its process has ended."""
        if found := world.held.pop(record["socket"], None):
            found.close()
