"""Faults of a node's packet path: packets that vanish, a cable that is pulled."""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING, Any, Literal, Protocol

from firstfault.act import netlink, nftables
from firstfault.drills.injectors.base import Injector
from firstfault.drills.relay import Relay
from firstfault.errors import UnsupportedError
from firstfault.model.drill import Change

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence

    from firstfault.act.netlink import Request
    from firstfault.drills.topology import Topology

__all__ = ["DelayedFrames", "DropPackets", "LimitedRate", "PulledCable"]

# Before the security groups' chains (priority 0), which let established connections pass.
_PRIORITY = -10


class _Network(Protocol):
    """What these need of a world: netlink in its nodes, and their cables."""

    topology: Topology
    net: _Kernel
    fault_table: str
    relay: Relay | None


class _Kernel(Protocol):
    def netlink(
        self, where: str, family: int, requests: Sequence[Request], *, batch: bool = False
    ) -> list[list[bytes]]: ...

    def set_link(self, node: str, *, up: bool) -> None: ...

    def limit_rate(self, node: str, bits_per_second: int | None) -> None: ...

    def unplug_from_bridge(self, node: str) -> socket.socket: ...

    def plug_into_bridge(self, node: str) -> None: ...


@contextlib.contextmanager
def _kernel_needs(what: str) -> Iterator[None]:
    """Say what a kernel lacks that refuses a fault."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT, errno.EPERM}:
            raise
        raise UnsupportedError(f"this kernel refuses {what}: {error.strerror}", "run this drill elsewhere") from error


class DropPackets(Injector, frozen=True, kw_only=True, tag="drop-packets"):
    """Lets packets that come in at a node vanish, of established connections too. All conditions must hold.

    Attributes:
        nodes: Nodes that no longer receive them.
        sender: Only packets of this node; "": of every node.
        protocol: Only this protocol.
        ports: Only packets to these ports, first and last.
        larger_than: Only packets whose IP length in bytes is larger.
        percent: Only so many of a hundred, at random.
        answer: Refuse with an answer instead of silence.
    """

    nodes: list[str]
    sender: str = ""
    protocol: Literal["tcp", "udp", "icmp", "all"] = "tcp"
    ports: tuple[int, int] | None = None
    larger_than: int | None = None
    percent: float | None = None
    answer: bool = False

    def describe(self, world: _Network) -> Change:
        """Write the rule out for every node."""
        return Change(
            steps=[f"{world.topology.node(node).hostname}: {self._words(world.topology)}" for node in self.nodes]
        )

    def _words(self, topology: Topology) -> str:
        words = ["refuse" if self.answer else "drop"]
        if self.percent is not None:
            words.append(f"{self.percent:g} % of")
        words.append("every incoming packet" if self.protocol == "all" else f"incoming {self.protocol} packets")
        if self.ports:
            words.append(f"to ports {self.ports[0]}-{self.ports[1]}")
        if self.larger_than is not None:
            words.append(f"larger than {self.larger_than} bytes")
        if self.sender:
            words.append(f"from {topology.node(self.sender).hostname}")
        return " ".join(words)

    def _matches(self, topology: Topology) -> Iterator[bytes]:
        if self.sender:
            yield nftables.network(f"{topology.node(self.sender).ip}/32", "source")
        if self.protocol != "all":
            yield nftables.protocol(self.protocol)
        if self.ports:
            yield nftables.port_range(*self.ports)
        if self.larger_than is not None:
            yield nftables.length_over(self.larger_than)
        if self.percent is not None:
            yield nftables.at_random(self.percent)

    def prepare(self, world: _Network) -> dict[str, Any]:
        """Record the table, which is ours alone."""
        return {"nodes": self.nodes, "table": world.fault_table}

    def inject(self, world: _Network) -> None:
        """Add the table on every node, in one transaction each."""
        table = world.fault_table
        verdict = nftables.reject("tcp-reset" if self.protocol == "tcp" else "prohibited")
        content = [
            nftables.chain(table, "input", hook="input", priority=_PRIORITY),
            nftables.rule(table, "input", nftables.interface("lo", "in"), nftables.accept(), comment="loopback"),
            nftables.rule(
                table,
                "input",
                *self._matches(world.topology),
                nftables.counter(),
                verdict if self.answer else nftables.drop(),
                comment="fault/drop",
            ),
        ]
        for node in self.nodes:
            with _kernel_needs("nf_tables with numgen and reject"):
                world.net.netlink(node, netlink.NETLINK_NETFILTER, nftables.replace_table(table, content), batch=True)

    @classmethod
    def undo(cls, world: _Network, record: dict[str, Any]) -> None:
        """Delete the table; harmless when it is gone."""
        for node in record["nodes"]:
            requests = nftables.delete_table(record["table"])
            world.net.netlink(node, netlink.NETLINK_NETFILTER, requests, batch=True)


class PulledCable(Injector, frozen=True, kw_only=True, tag="pulled-cable"):
    """Takes a node off the network: its link goes down, as when a machine or its switch port dies.

    Attributes:
        node: The node.
    """

    node: str

    def describe(self, world: _Network) -> Change:
        """Name the node."""
        return Change(steps=[f"take the link of {world.topology.node(self.node).hostname} down"])

    def prepare(self, world: _Network) -> dict[str, Any]:  # noqa: ARG002
        """Record the node."""
        return {"node": self.node}

    def inject(self, world: _Network) -> None:
        """Pull it."""
        world.net.set_link(self.node, up=False)

    @classmethod
    def undo(cls, world: _Network, record: dict[str, Any]) -> None:
        """Plug it in again; harmless when it is."""
        world.net.set_link(record["node"], up=True)


class LimitedRate(Injector, frozen=True, kw_only=True, tag="limited-rate"):
    """Lets nodes receive no faster than a rate (tbf on the switch's side of the cable).

    Attributes:
        nodes: The nodes.
        mbit_per_s: Millions of bits per second.
    """

    nodes: list[str]
    mbit_per_s: float

    def describe(self, world: _Network) -> Change:
        """Name the nodes."""
        names = [world.topology.node(node).hostname for node in self.nodes]
        return Change(steps=[f"let {name} receive {self.mbit_per_s:g} Mbit/s (tbf)" for name in names])

    def prepare(self, world: _Network) -> dict[str, Any]:  # noqa: ARG002
        """Record the nodes."""
        return {"nodes": self.nodes}

    def inject(self, world: _Network) -> None:
        """Add the queueing discipline."""
        for node in self.nodes:
            with _kernel_needs("the queueing discipline tbf (module sch_tbf)"):
                world.net.limit_rate(node, round(self.mbit_per_s * 1e6))

    @classmethod
    def undo(cls, world: _Network, record: dict[str, Any]) -> None:
        """Delete it; harmless when it is gone."""
        for node in record["nodes"]:
            world.net.limit_rate(node, None)


class DelayedFrames(Injector, frozen=True, kw_only=True, tag="delayed-frames"):
    """Hands every frame between the nodes on late: a relay in this process takes the place of the bridge.

    Attributes:
        ms: Milliseconds in each direction.
    """

    ms: float

    def describe(self, world: _Network) -> Change:  # noqa: ARG002 - the same in every world
        """Name the delay."""
        return Change(steps=[f"hand every frame between the nodes on {self.ms:g} ms late (relay)"])

    def prepare(self, world: _Network) -> dict[str, Any]:
        """Record the nodes."""
        return {"nodes": [node.name for node in world.topology.nodes]}

    def inject(self, world: _Network) -> None:
        """Take all cables out of the bridge and forward between them."""
        sockets = [world.net.unplug_from_bridge(node.name) for node in world.topology.nodes]
        world.relay = Relay(sockets, self.ms / 1000)

    @classmethod
    def undo(cls, world: _Network, record: dict[str, Any]) -> None:
        """Stop the relay, and put the cables back."""
        if world.relay is not None:
            world.relay.close()
            world.relay = None
        for node in record["nodes"]:
            world.net.plug_into_bridge(node)
