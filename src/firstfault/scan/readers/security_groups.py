"""EC2 security groups as the AWS CLI prints them: rules, counts, and what changed between two snapshots."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.model import TextLine
from firstfault.scan.readers.facts import Context, mapping, mappings, name_of
from firstfault.scan.readers.joint import Payloads

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Rule", "SecurityGroup", "analyse", "diff_security_groups", "parse_security_groups", "security_group_facts"]

KIND = "security-groups"


class Rule(msgspec.Struct, frozen=True, order=True):
    """One rule: one direction, protocol, port range and one source or destination.

    Attributes:
        direction: "ingress" or "egress".
        protocol: "tcp", "udp", "icmp", a number, or "all".
        ports: "29500", "1025-65535" or "all".
        peer: CIDR, prefix list, group id, or "self" for the group itself.
    """

    direction: str
    protocol: str
    ports: str
    peer: str

    def __str__(self) -> str:
        return f"{self.direction} {self.protocol} {self.ports} {self.peer}"


class SecurityGroup(msgspec.Struct, frozen=True):
    """A security group with its rules, each of them once."""

    id: str
    name: str
    rules: frozenset[Rule]

    def count(self, direction: str) -> int:
        """Return the number of rules in one direction."""
        return sum(rule.direction == direction for rule in self.rules)


def parse_security_groups(value: dict[str, Any]) -> dict[str, SecurityGroup]:
    """Return the groups of `describe-security-groups` or `describe-security-group-rules` output by id.

    Args:
        value: The decoded JSON.
    """
    groups: dict[str, SecurityGroup] = {}
    for group in mappings(value.get("SecurityGroups")):
        identity = name_of(group.get("GroupId"))
        rules = frozenset(
            rule
            for direction, key in (("ingress", "IpPermissions"), ("egress", "IpPermissionsEgress"))
            for permission in mappings(group.get(key))
            for rule in _permission_rules(direction, permission, identity)
        )
        groups[identity] = SecurityGroup(identity, name_of(group.get("GroupName")) or "-", rules)
    by_group: dict[str, set[Rule]] = {}
    for item in mappings(value.get("SecurityGroupRules")):
        identity = name_of(item.get("GroupId"))
        by_group.setdefault(identity, set()).add(_single_rule(item, identity))
    groups.update({identity: SecurityGroup(identity, "-", frozenset(rules)) for identity, rules in by_group.items()})
    return groups


def _permission_rules(direction: str, permission: dict[str, Any], group: str) -> Iterator[Rule]:
    protocol, ports = _protocol(permission), _ports(permission)
    for key, field in (
        ("IpRanges", "CidrIp"),
        ("Ipv6Ranges", "CidrIpv6"),
        ("PrefixListIds", "PrefixListId"),
        ("UserIdGroupPairs", "GroupId"),
    ):
        for item in mappings(permission.get(key)):
            peer = name_of(item.get(field))
            yield Rule(direction, protocol, ports, "self" if peer == group else peer)


def _single_rule(item: dict[str, Any], group: str) -> Rule:
    referenced = name_of(mapping(item, "ReferencedGroupInfo").get("GroupId"))
    peer = referenced or next(
        (name_of(item.get(key)) for key in ("CidrIpv4", "CidrIpv6", "PrefixListId") if item.get(key)), "?"
    )
    direction = "egress" if item.get("IsEgress") else "ingress"
    return Rule(direction, _protocol(item), _ports(item), "self" if peer == group else peer)


def _protocol(item: dict[str, Any]) -> str:
    protocol = name_of(item.get("IpProtocol")) or "?"
    return "all" if protocol == "-1" else protocol


def _ports(item: dict[str, Any]) -> str:
    low, high = item.get("FromPort"), item.get("ToPort")
    if low is None or low == -1 or name_of(item.get("IpProtocol")) == "-1":
        return "all"
    return str(low) if low == high else f"{low}-{high}"


def diff_security_groups(
    before: dict[str, SecurityGroup], after: dict[str, SecurityGroup]
) -> list[tuple[str, str, Rule]]:
    """Return what changed as (group id, "removed" or "added", rule), sorted. Groups in one snapshot only do not count.

    Args:
        before: Groups by id.
        after: The same groups later.
    """
    changes: list[tuple[str, str, Rule]] = []
    for identity in sorted(before.keys() & after.keys()):
        old, new = before[identity].rules, after[identity].rules
        changes.extend((identity, "removed", rule) for rule in sorted(old - new))
        changes.extend((identity, "added", rule) for rule in sorted(new - old))
    return changes


def security_group_facts(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Yield groups and rules, and keep them for the comparison with another snapshot."""
    groups = parse_security_groups(value)
    for group in groups.values():
        yield from context.print(
            f"securitygroup {group.id} {group.name} ingress={group.count('ingress')} egress={group.count('egress')}",
            needle=f'"{group.id}"',
        )
        for rule in sorted(group.rules):
            yield from context.print(f"securitygroup-rule {group.id} {rule}", needle=f'"{group.id}"')
    if context.joint is not None:
        plain = {
            identity: (group.name, sorted(map(msgspec.structs.astuple, group.rules)))
            for identity, group in groups.items()
        }
        context.joint.add(KIND, context.source_name, plain)


# Names that say when a snapshot was taken; anything else stands in between, by name.
_WHEN = (
    (re.compile(r"(?i)\b(?:before|baseline|base|old|good|pre|prev|previous|healthy|initial|expected|00?)\b"), 0),
    (re.compile(r"(?i)\b(?:restored?|recovered|recovery|final|undone|fixed)\b"), 3),
    (re.compile(r"(?i)\b(?:after|current|now|new|bad|post|during|blocked|injected|broken|fault|faulty|actual)\b"), 2),
)


def _when(source: str) -> tuple[int, str]:
    name = re.sub(r"[_.!/]", " ", source)
    return next((rank for pattern, rank in _WHEN if pattern.search(name)), 1), source


def analyse(payloads: Payloads) -> list[tuple[str, TextLine]]:
    """Compare each snapshot with the one before it."""
    snapshots = [
        (
            source,
            {
                key: SecurityGroup(key, name, frozenset(Rule(*rule) for rule in rules))
                for key, (name, rules) in plain.items()
            },
        )
        for source, plain in sorted(payloads, key=lambda item: _when(item[0]))
    ]
    lines = []
    for (_, before), (source, after) in pairwise(snapshots):
        for identity, what, rule in diff_security_groups(before, after):
            lines.append((source, TextLine(text=f"securitygroup-diff {identity} {what} {rule}")))
    return lines
