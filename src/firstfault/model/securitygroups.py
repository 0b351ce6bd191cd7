"""Security groups as data: rules, groups, what an interface obeys, and what a change destroys.

A security group only allows. An interface obeys the union of its groups: a packet passes when any rule of any group
lets it. Groups are stateful: what belongs to an allowed connection passes in both directions.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Direction", "GroupRule", "Plan", "SecurityGroup", "allows", "counts", "plan_change", "with_toggles"]

Direction = Literal["ingress", "egress"]


class GroupRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule of a security group.

    Attributes:
        id: Unique within its group, kebab-case.
        direction: ingress: `peer` is the source · egress: `peer` is the destination.
        protocol: "all" takes no ports.
        ports: First and last port, inclusive; None for all.
        peer: A CIDR, "self" (the members of the same group), or the name of another group.
        title: What it is for, in a few words.
        toggle: Name of the switch (a Terraform variable) that moves it; "" when none does.
        role: What its loss means for training: it cuts the traffic between ranks, or something else breaks.
    """

    id: str
    direction: Direction
    protocol: Literal["tcp", "udp", "icmp", "all"] = "tcp"
    ports: tuple[int, int] | None = None
    peer: str
    title: str = ""
    toggle: str = ""
    role: Literal["cuts training", "side effect", ""] = ""

    @property
    def port_text(self) -> str:
        """The ports as people write them: "1025-65535/tcp", "53/udp", "all traffic"."""
        if self.ports is None:
            return "all traffic" if self.protocol == "all" else self.protocol
        first, last = self.ports
        return f"{first if first == last else f'{first}-{last}'}/{self.protocol}"


class SecurityGroup(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named group of rules."""

    name: str
    rules: list[GroupRule]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a change does to the rules, in Terraform's words.

    Attributes:
        add: `(group, rule)` that the change creates.
        destroy: `(group, rule)` that the change removes.
    """

    add: list[tuple[str, GroupRule]]
    destroy: list[tuple[str, GroupRule]]

    def __str__(self) -> str:
        return f"{len(self.add)} to add, 0 to change, {len(self.destroy)} to destroy"


def with_toggles(groups: Iterable[SecurityGroup], toggles: dict[str, bool]) -> list[SecurityGroup]:
    """Return the groups without the rules whose toggle is off."""
    return [
        SecurityGroup(name=group.name, rules=[rule for rule in group.rules if toggles.get(rule.toggle, True)])
        for group in groups
    ]


def plan_change(before: Iterable[SecurityGroup], after: Iterable[SecurityGroup]) -> Plan:
    """Compare two states of the same groups, as `terraform plan` would list the difference."""
    old = {(group.name, rule.id): rule for group in before for rule in group.rules}
    new = {(group.name, rule.id): rule for group in after for rule in group.rules}
    return Plan(
        add=[(key[0], rule) for key, rule in new.items() if old.get(key) != rule],
        destroy=[(key[0], rule) for key, rule in old.items() if new.get(key) != rule],
    )


def counts(groups: Iterable[SecurityGroup]) -> dict[str, dict[str, int]]:
    """Count the rules of each group by direction."""
    return {
        group.name: {
            direction: sum(rule.direction == direction for rule in group.rules) for direction in ("ingress", "egress")
        }
        for group in groups
    }


def allows(
    groups: Sequence[SecurityGroup],
    members: dict[str, list[str]],
    *,
    direction: Direction,
    peer: str,
    protocol: Literal["tcp", "udp", "icmp"],
    port: int | None = None,
) -> list[tuple[str, GroupRule]]:
    """Return the rules by which an interface lets a new connection pass; none means that it is dropped.

    Args:
        groups: The groups on the interface; their union counts.
        members: Addresses of the members of each group, for rules that name a group.
        direction: Seen from the interface.
        peer: IPv4 address of the other side.
        protocol: Layer-4 protocol.
        port: Destination port; None for protocols without ports.
    """

    def matches(group: SecurityGroup, rule: GroupRule) -> bool:
        if rule.direction != direction or rule.protocol not in {"all", protocol}:
            return False
        if rule.ports is not None and (port is None or not rule.ports[0] <= port <= rule.ports[1]):
            return False
        if "/" in rule.peer:
            return ipaddress.IPv4Address(peer) in ipaddress.IPv4Network(rule.peer)
        return peer in members.get(group.name if rule.peer == "self" else rule.peer, ())

    return [(group.name, rule) for group in groups for rule in group.rules if matches(group, rule)]
