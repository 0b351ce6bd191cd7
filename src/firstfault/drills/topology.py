"""The nodes, security groups and paths of a drill, as data. Files under `topologies/`, or the user's own."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.errors import InputError
from firstfault.model.securitygroups import SecurityGroup, with_toggles

__all__ = ["Node", "Probe", "Topology"]


class Node(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node.

    Attributes:
        name: How scenarios refer to it.
        hostname: Host name inside, as the Pod on it has.
        address: IPv4 address with prefix length.
        aliases: Further names by which it resolves (a headless Service's name).
        groups: Security groups on its interface; none: it has no firewall.
        member_of: Groups that it belongs to as a source only, for rules that name the group.
        files: Files laid over the machine's on this node (absolute path: content).
        settings: Kernel network settings (`net.ipv4.tcp_syn_retries: "2"`).
    """

    name: str
    hostname: str
    address: str
    aliases: list[str] = []
    groups: list[str] = []
    member_of: list[str] = []
    files: dict[str, str] = {}
    settings: dict[str, str] = {}

    @property
    def ip(self) -> str:
        """The address without prefix length."""
        return self.address.partition("/")[0]


class Probe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A connection to try in every phase, to a listener that the drill puts there for that moment."""

    id: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    port: int
    protocol: Literal["tcp", "udp"] = "tcp"
    title: str = ""


class Topology(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes, their security groups, and the paths to probe.

    Attributes:
        name: Its name; the file is `<name>.yaml`.
        nodes: The nodes; all on one switch.
        groups: Security groups with all their rules.
        toggles: Switches that rules refer to, and whether they are on in the baseline.
        probes: Paths to probe in every phase.
        env: Environment that every job on this cluster gets.
        dns_server: Node that answers DNS questions for all; "": there is no DNS.
        names: What the DNS answers: name to node.
    """

    name: str
    nodes: list[Node]
    groups: list[SecurityGroup] = []
    toggles: dict[str, bool] = {}
    probes: list[Probe] = []
    env: dict[str, str] = {}
    dns_server: str = ""
    names: dict[str, str] = {}

    def node(self, name: str) -> Node:
        """Return a node by name.

        Raises:
            InputError: No node has that name.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise InputError(f"topology {self.name}: no node is called {name!r}", f"the nodes are {names}")

    def groups_with(self, toggles: dict[str, bool]) -> list[SecurityGroup]:
        """Return the groups as they are with some toggles changed.

        Raises:
            InputError: No rule has that toggle.
        """
        if unknown := set(toggles) - set(self.toggles):
            known = ", ".join(self.toggles) or "none"
            raise InputError(f"topology {self.name}: no toggle is called {min(unknown)!r}", f"it has: {known}")
        return with_toggles(self.groups, {**self.toggles, **toggles})

    def members(self) -> dict[str, list[str]]:
        """Return the addresses of every group's members."""
        found: dict[str, list[str]] = {group.name: [] for group in self.groups}
        for node in self.nodes:
            for group in (*node.groups, *node.member_of):
                found.setdefault(group, []).append(node.ip)
        return found

    def hosts_file(self) -> str:
        """Return /etc/hosts: every node by host name and aliases."""
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
        lines += [" ".join([node.ip, node.hostname, *node.aliases]) for node in self.nodes]
        return "\n".join(lines) + "\n"
