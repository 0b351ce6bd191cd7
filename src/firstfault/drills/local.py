"""The local world as a drill needs it: a topology made of namespaces, its security groups in the kernel."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.act.world import Footprint, LocalWorld, NodeSpec, leftovers
from firstfault.drills.jobs import base_environment, bundled_script
from firstfault.drills.nameserver import DNS_PORT, NameServer
from firstfault.drills.observe import JobObserver, extra_environment
from firstfault.drills.probes import probe_paths
from firstfault.drills.world import RankExit, Snapshot

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from firstfault.drills.jobs import Process
    from firstfault.drills.relay import Relay
    from firstfault.drills.topology import Node, Topology
    from firstfault.model.drill import ProbeResult
    from firstfault.model.securitygroups import SecurityGroup

__all__ = ["Local", "left_of"]

# Names must come from our hosts file or fail at once, whatever the machine's resolver is.
_NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"
_RESOLV = "nameserver {}\noptions timeout:1 attempts:1\n"
_GONE_SECONDS = 5.0


class Local:
    """A topology on this machine.

    Args:
        topology: Nodes, groups and probes.
        state: The state folder; an empty folder in it serves as mount point inside the world.
        table: Name of the nf_tables table on each node.
        refuse: Answer what no rule allows, instead of silence.
        preload: Fork bundled programs from a process that has imported PyTorch once.

    Attributes:
        net: The nodes, for injectors that need sockets, links, settings or signals.
        groups: The security groups as they are now.
        jobs: The id of each running rank's process in the world.
        dns: The name server of the nodes, while the world is open and its topology has one.
        relay: What stands in for the bridge while frames are delayed.
        held: Sockets that a fault keeps open, by name.
        fault_table: Name of the nf_tables table that faults of the packet path may use.
    """

    kind = "local"
    ends_faults = True

    def __init__(
        self, topology: Topology, *, state: Path, table: str, refuse: bool = False, preload: bool = False
    ) -> None:
        self.topology = topology
        self.refuse = refuse
        self.preload = preload
        self.groups: list[SecurityGroup] = topology.groups_with({})
        self.jobs: dict[int, int] = {}
        self.held: dict[str, socket.socket] = {}
        self.dns: NameServer | None = None
        self.relay: Relay | None = None
        self.fault_table = f"{table}_fault"
        self.temporary = state / "mountpoint"
        self.net = LocalWorld([self._spec(node) for node in topology.nodes], scratch=self.temporary, table=table)
        self._footprint: Footprint | None = None
        self._observer: JobObserver | None = None
        self._logs = Path()

    def _spec(self, node: Node) -> NodeSpec:
        files = {"/etc/hosts": self.topology.hosts_file()}
        optional = {"/etc/nsswitch.conf": _NSSWITCH, "/etc/resolv.conf": self._resolver()}
        files |= {path: content for path, content in optional.items() if Path(path).exists()}
        return NodeSpec(name=node.name, hostname=node.hostname, address=node.address, files={**files, **node.files})

    def _resolver(self) -> str:
        server = self.topology.dns_server
        return _RESOLV.format(self.topology.node(server).ip if server else "127.0.0.1")

    def open(self) -> dict[str, Any]:
        """Make the nodes and their firewalls.

        Raises:
            UnsupportedError: This machine refuses; nothing is left behind.
        """
        self.net.start()
        try:
            self._footprint = self.net.footprint
            if self.preload:
                self.net.preload(["torch.distributed"], base_environment(self.topology, self.temporary))
            for node in self.topology.nodes:
                for name, value in node.settings.items():
                    self.net.setting(node.name, name, value)
            self.set_groups(self.groups)
            if self.topology.dns_server:
                names = {name: self.topology.node(node).ip for name, node in self.topology.names.items()}
                address = (self.topology.node(self.topology.dns_server).ip, DNS_PORT)
                self.dns = NameServer(self.net.socket(self.topology.dns_server, "udp", address), names)
        except BaseException:
            self.close()
            raise
        identity: dict[str, Any] = msgspec.to_builtins(self._footprint)
        return identity

    def close(self) -> list[str]:
        """End the world; wait until the kernel has let go of it."""
        if self.relay is not None:
            self.relay.close()
        if self.dns is not None:
            self.dns.close()
        self.net.close()
        if self._footprint is None:
            return []
        return left_of(self._footprint)

    def set_groups(self, groups: list[SecurityGroup]) -> None:
        """Make every interface obey these groups."""
        by_name = {group.name: group for group in groups}
        members = self.topology.members()
        for node in self.topology.nodes:
            if node.groups:
                attached = [by_name[name] for name in node.groups]
                self.net.set_firewall(node.name, attached, members, reject=self.refuse)
        self.groups = groups

    def snapshot(self) -> Snapshot:
        """Read the firewalls of all nodes back; the counts are those of the first node that has one."""
        digest = hashlib.sha256()
        firewall: dict[str, dict[str, int]] = {}
        refused: dict[str, int] = {}
        for node in self.topology.nodes:
            digest.update(f"{node.name} {self.net.all_rules(node.name)}\n".encode())
            if not node.groups:
                continue
            state = self.net.firewall(node.name)
            if not firewall:
                firewall = state.counts(node.groups)
            for direction, packets in state.refused.items():
                refused[direction] = refused.get(direction, 0) + packets
        return Snapshot(firewall=firewall, refused=refused, digest=digest.hexdigest())

    def probe(self, *, patient: bool = False) -> list[ProbeResult]:
        """Try every path of the topology."""
        return probe_paths(self.net, self.topology, self.topology.probes, patient=patient)

    def start(self, job: Sequence[Process], logs: Path) -> None:
        """Start every process of a job."""
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._observer = JobObserver(self.net, {process.node: process.host for process in job}, job)
        for process in job:
            with (logs / process.log).open("wb") as output:
                self.jobs[process.rank] = self.net.spawn(
                    process.node,
                    process.argv,
                    env={**process.env, **extra_environment(process, logs)},
                    cwd=Path.cwd(),
                    output=output.fileno(),
                    preloaded=bundled_script(process.argv) if self.preload else 0,
                )

    def poll(self, seconds: float) -> RankExit | None:
        """Wait for a rank to end."""
        ended = self.net.wait_exit(seconds)
        if ended is None:
            return None
        for rank, job in self.jobs.items():
            if job == ended.job:
                del self.jobs[rank]
                return RankExit(rank, ended.code, ended.time)
        return None

    def examine(self, logs: Path, *, stuck_s: float) -> None:
        """Ask NCCL's RAS service of every node once the job has been silent for so long."""
        if self._observer is not None:
            self._observer.look(logs, stuck_s)

    def end_job(self) -> None:
        """End every process of the world."""
        if self._observer is not None:
            self._observer.finish(self._logs)
            self._observer = None
        self.net.sweep()
        while self.net.wait_exit(0) is not None:
            pass
        self.jobs.clear()


def left_of(footprint: Footprint) -> list[str]:
    """Say what of a world is left. The kernel takes some milliseconds to end its processes."""
    deadline = time.monotonic() + _GONE_SECONDS
    while (found := list(leftovers(footprint))) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found
