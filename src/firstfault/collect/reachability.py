"""Is this port open between these two interfaces? Answered from the cloud's own configuration, without a packet.

Pure functions over what `ec2:Describe*` returns. They follow the documented semantics of Amazon VPC:

- a network interface obeys the *union* of all its security groups, and a group allows only (no deny rules);
- security groups are stateful: what may enter is answered, so only ingress at the destination and egress at the
  source count;
- a network ACL is stateless and ordered: the first rule whose number is lowest and that matches decides, in both
  directions, and only where traffic leaves or enters a subnet.

Used by live triage, by `firstfault collect` and by the lifeline check of cluster drills.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Literal

import msgspec

__all__ = [
    "Answer",
    "Interface",
    "NetworkAcl",
    "NetworkAclEntry",
    "SecurityGroup",
    "SecurityGroupRule",
    "parse_interface",
    "parse_network_acl",
    "parse_security_group",
    "reachable",
]

EPHEMERAL_PORTS = (1024, 65535)
"""Ports that answers may go to: VPC documentation's advice for network ACLs; Linux itself uses 32768-60999."""

_PROTOCOLS = {"1": "icmp", "6": "tcp", "17": "udp", "58": "icmpv6", "-1": "-1", "all": "-1"}

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class SecurityGroupRule(msgspec.Struct, frozen=True, kw_only=True):
    """One permission of a security group, with one kind of peer each.

    Attributes:
        protocol: "tcp", "udp", "icmp", another protocol number, or "-1" for all.
        ports: Inclusive range; None for all ports.
        cidr: Peer addresses, or None.
        group: Peer security-group id, or None.
        prefix_list: Managed prefix list id, or None; its members are not known here.
    """

    protocol: str
    ports: tuple[int, int] | None
    cidr: str | None = None
    group: str | None = None
    prefix_list: str | None = None

    def covers(self, protocol: str, port: int) -> bool:
        """Whether protocol and port are those of the rule, whoever the peer is."""
        if self.protocol == "-1":
            return True
        return self.protocol == protocol and (self.ports is None or self.ports[0] <= port <= self.ports[1])

    def __str__(self) -> str:
        """Return protocol, ports and peer as the console shows them."""
        ports = "all" if self.ports is None else "-".join(str(port) for port in dict.fromkeys(self.ports))
        peer = self.cidr or self.group or self.prefix_list
        return f"{'all' if self.protocol == '-1' else self.protocol} {ports} {peer}"


class SecurityGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A security group with its rules; `tags` as a plain mapping."""

    id: str
    name: str
    ingress: tuple[SecurityGroupRule, ...]
    egress: tuple[SecurityGroupRule, ...]
    tags: dict[str, str] = {}


class NetworkAclEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered rule of a network ACL."""

    number: int
    egress: bool
    allow: bool
    protocol: str
    cidr: str
    ports: tuple[int, int] | None


class NetworkAcl(msgspec.Struct, frozen=True, kw_only=True):
    """A network ACL: entries in order of number, and the subnets that it guards."""

    id: str
    subnets: frozenset[str]
    entries: tuple[NetworkAclEntry, ...]


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """One end of the question: an address, the interface that holds it and the groups that the interface obeys."""

    address: str
    eni: str
    subnet: str
    groups: frozenset[str]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Whether traffic passes and what decides it.

    Attributes:
        state: open, dropped (neither security groups nor network ACLs answer a packet that they refuse) or unknown.
        decided_by: "security groups", "network acl" or "" when unknown.
        why: One sentence that names the rule, or the lack of one.
    """

    state: Literal["open", "dropped", "unknown"]
    decided_by: str
    why: str


def _ports(permission: dict[str, Any]) -> tuple[int, int] | None:
    low, high = permission.get("FromPort"), permission.get("ToPort")
    if low is None or high is None or low == -1:
        return None
    return int(low), int(high)


def _permissions(permissions: list[dict[str, Any]]) -> tuple[SecurityGroupRule, ...]:
    rules = []
    for permission in permissions:
        protocol = str(permission.get("IpProtocol", "-1"))
        base: dict[str, Any] = {"protocol": _PROTOCOLS.get(protocol, protocol), "ports": _ports(permission)}
        rules += [SecurityGroupRule(**base, cidr=peer["CidrIp"]) for peer in permission.get("IpRanges", [])]
        rules += [SecurityGroupRule(**base, cidr=peer["CidrIpv6"]) for peer in permission.get("Ipv6Ranges", [])]
        rules += [SecurityGroupRule(**base, group=peer["GroupId"]) for peer in permission.get("UserIdGroupPairs", [])]
        rules += [
            SecurityGroupRule(**base, prefix_list=peer["PrefixListId"]) for peer in permission.get("PrefixListIds", [])
        ]
    return tuple(rules)


def parse_security_group(data: dict[str, Any]) -> SecurityGroup:
    """Read one element of `describe-security-groups`' SecurityGroups; one rule for each peer, as the console counts."""
    return SecurityGroup(
        id=data["GroupId"],
        name=data.get("GroupName", ""),
        ingress=_permissions(data.get("IpPermissions", [])),
        egress=_permissions(data.get("IpPermissionsEgress", [])),
        tags={tag["Key"]: tag["Value"] for tag in data.get("Tags", [])},
    )


def parse_network_acl(data: dict[str, Any]) -> NetworkAcl:
    """Read one element of `describe-network-acls`' NetworkAcls."""
    entries = []
    for entry in data.get("Entries", []):
        span = entry.get("PortRange") or {}
        protocol = str(entry.get("Protocol", "-1"))
        entries.append(
            NetworkAclEntry(
                number=int(entry["RuleNumber"]),
                egress=bool(entry["Egress"]),
                allow=entry["RuleAction"] == "allow",
                protocol=_PROTOCOLS.get(protocol, protocol),
                cidr=entry.get("CidrBlock") or entry.get("Ipv6CidrBlock") or "0.0.0.0/0",
                ports=(int(span["From"]), int(span["To"])) if span else None,
            )
        )
    return NetworkAcl(
        id=data["NetworkAclId"],
        subnets=frozenset(link["SubnetId"] for link in data.get("Associations", [])),
        entries=tuple(sorted(entries, key=lambda entry: entry.number)),
    )


def parse_interface(data: dict[str, Any], address: str) -> Interface:
    """Read one element of `describe-network-interfaces`' NetworkInterfaces, for one of the addresses it holds."""
    return Interface(
        address=address,
        eni=data["NetworkInterfaceId"],
        subnet=data["SubnetId"],
        groups=frozenset(group["GroupId"] for group in data.get("Groups", [])),
    )


def _inside(address: Address, cidr: str) -> bool:
    network: Network = ip_network(cidr, strict=False)
    return address.version == network.version and address in network


def _allowing_rule(
    groups: list[tuple[str, tuple[SecurityGroupRule, ...]]],
    peer: Interface,
    protocol: str,
    port: int,
) -> tuple[str, str | None]:
    """Return ("open" | "dropped" | "unknown", the rule or prefix list that decides)."""
    undecided = None
    for group_id, rules in groups:
        for rule in rules:
            if not rule.covers(protocol, port):
                continue
            if rule.prefix_list:
                undecided = f"{group_id}: {rule}"
            elif (rule.group in peer.groups) if rule.group else _inside(ip_address(peer.address), str(rule.cidr)):
                return "open", f"{group_id}: {rule}"
    return ("unknown", undecided) if undecided else ("dropped", None)


def _check_groups(
    groups: dict[str, SecurityGroup],
    here: Interface,
    peer: Interface,
    protocol: str,
    port: int,
    *,
    egress: bool,
) -> Answer:
    direction = "egress" if egress else "ingress"
    missing = sorted(here.groups - groups.keys())
    known = [groups[group_id] for group_id in sorted(here.groups & groups.keys())]
    state, rule = _allowing_rule(
        [(group.id, group.egress if egress else group.ingress) for group in known], peer, protocol, port
    )
    names = ", ".join(sorted(here.groups)) or "no group"
    if state == "open":
        return Answer(state="open", decided_by="security groups", why=f"{direction} allowed by {rule}")
    if missing:
        why = f"{direction}: the rules of {', '.join(missing)} could not be read"
        return Answer(state="unknown", decided_by="", why=why)
    if state == "unknown":
        why = f"{direction}: depends on the members of the prefix list in {rule}"
        return Answer(state="unknown", decided_by="", why=why)
    why = f"no {direction} rule of {names} ({here.eni}) admits {protocol} {port} with {peer.address}"
    return Answer(state="dropped", decided_by="security groups", why=why)


def _acl_allows(acl: NetworkAcl, peer: str, protocol: str, ports: tuple[int, int], *, egress: bool) -> str | None:
    """Return None when every port of the range passes, else the reason. The lowest matching number decides."""
    low, high = ports
    undecided = [(low, high)]
    for entry in acl.entries:
        if entry.egress != egress or not _inside(ip_address(peer), entry.cidr):
            continue
        if entry.protocol not in ("-1", protocol):
            continue
        first, last = entry.ports or (0, 65535)
        rest = []
        for start, end in undecided:
            if last < start or first > end:
                rest.append((start, end))
                continue
            if not entry.allow:
                return f"{acl.id} rule {entry.number} denies {'egress' if egress else 'ingress'} {protocol}"
            rest += [(a, b) for a, b in ((start, first - 1), (last + 1, end)) if a <= b]
        undecided = rest
        if not undecided:
            return None
    return f"{acl.id} has no rule that admits {'egress' if egress else 'ingress'} {protocol} {undecided[0][0]}"


def _check_acls(
    acls: list[NetworkAcl], source: Interface, target: Interface, protocol: str, port: int
) -> Answer | None:
    """Return what a network ACL decides, or None when all of them let the exchange pass."""
    if source.subnet == target.subnet:
        return None
    for subnet, sends, peer, ports in (
        (source.subnet, True, target.address, (port, port)),
        (target.subnet, False, source.address, (port, port)),
        (target.subnet, True, source.address, EPHEMERAL_PORTS),
        (source.subnet, False, target.address, EPHEMERAL_PORTS),
    ):
        acl = next((acl for acl in acls if subnet in acl.subnets), None)
        if acl is None:
            why = f"the network ACL of {subnet} could not be read"
            return Answer(state="unknown", decided_by="", why=why)
        if why_not := _acl_allows(acl, peer, protocol, ports, egress=sends):
            return Answer(state="dropped", decided_by="network acl", why=why_not)
    return None


def reachable(
    source: Interface,
    target: Interface,
    port: int,
    *,
    groups: dict[str, SecurityGroup],
    acls: list[NetworkAcl],
    protocol: str = "tcp",
) -> Answer:
    """Say whether `source` can open a connection to `target` on `port`.

    Args:
        source: The connecting end.
        target: The listening end.
        port: Port number on the target.
        groups: Security groups by id; a group of either interface that is not here makes the answer unknown, unless
            another group already admits the traffic.
        acls: Network ACLs of both subnets; not looked at when both ends are in one subnet.
        protocol: "tcp" or "udp".
    """
    answers = [
        _check_groups(groups, source, target, protocol, port, egress=True),
        _check_groups(groups, target, source, protocol, port, egress=False),
    ]
    if by_acl := _check_acls(acls, source, target, protocol, port):
        answers.append(by_acl)
    for state in ("dropped", "unknown"):
        for answer in answers:
            if answer.state == state:
                return answer
    why = "; ".join(answer.why for answer in answers)
    return Answer(state="open", decided_by="security groups", why=why)
