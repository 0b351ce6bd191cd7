"""Security groups on a node's interface, as nf_tables: one kernel rule per security-group rule, and the way back.

The table hooks into the node's own packet path, as a security group hooks into a network interface::

    input   established → accept · lo → accept · each group's ingress chain · count, then drop (or reject)
    output  established → accept · lo → accept · each group's egress chain  · count, then drop (or reject)

The chains of the groups are only jumped to, so the interface obeys their union. Comments carry the rules' identity.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

import msgspec

from firstfault.act import nftables
from firstfault.model.securitygroups import Direction, GroupRule, SecurityGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.act.netlink import Request

__all__ = ["FirewallState", "RuleCount", "read_state", "requests_for"]

DIRECTIONS: tuple[Direction, Direction] = ("ingress", "egress")


class RuleCount(msgspec.Struct, frozen=True, kw_only=True):
    """One rule as the kernel has it, with the packets that it let through (or, for `default`, refused)."""

    group: str
    direction: Direction
    rule: str
    packets: int


class FirewallState(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel of one node says about its firewall.

    Attributes:
        rules: Rules of the security groups, in the kernel's order.
        refused: Packets that no rule allowed, by direction.
        digest: Equal digests mean equal rule sets; counters are left out.
    """

    rules: list[RuleCount]
    refused: dict[Direction, int]
    digest: str

    def counts(self, groups: Iterable[str]) -> dict[str, dict[str, int]]:
        """Count the kernel's rules of each of the named groups by direction; a group without rules counts zero."""
        found = {group: dict.fromkeys(DIRECTIONS, 0) for group in groups}
        for rule in self.rules:
            found.setdefault(rule.group, dict.fromkeys(DIRECTIONS, 0))[rule.direction] += 1
        return {group: {str(side): count for side, count in sides.items()} for group, sides in found.items()}


def requests_for(
    table: str, groups: Sequence[SecurityGroup], members: dict[str, list[str]], *, reject: bool = False
) -> list[Request]:
    """Return the transaction that makes a node obey security groups, whatever its table held before.

    Args:
        table: Name of the table: one per run, nobody else's.
        groups: The groups on the node's interface.
        members: Addresses of the members of every group that a rule names.
        reject: Refuse with an answer (TCP reset, ICMP) instead of silence. Security groups never do; firewalls may.
    """
    content: list[Request] = []
    for number, (name, addresses) in enumerate(members.items(), start=1):
        content += nftables.set_of_addresses(table, name, addresses, number=number)
    for direction in DIRECTIONS:
        for group in groups:
            name = _chain(group.name, direction)
            content.append(nftables.chain(table, name))
            content += [_rule(table, group, rule) for rule in group.rules if rule.direction == direction]
        content += _base(table, direction, [_chain(group.name, direction) for group in groups], reject=reject)
    return nftables.replace_table(table, content)


def read_state(bodies: Iterable[bytes]) -> FirewallState:
    """Read the kernel's reply to `nftables.rules_of`."""
    rules: list[RuleCount] = []
    refused: dict[Direction, int] = {}
    digest = hashlib.sha256()
    for rule in map(nftables.read_rule, bodies):
        digest.update(f"{rule.chain} {rule.comment} {rule.digest}\n".encode())
        group, _, rest = rule.comment.partition("/")
        side, _, name = rest.partition("/")
        direction: Direction = "ingress" if side == "ingress" else "egress"
        if group == "default":
            refused[direction] = refused.get(direction, 0) + rule.packets
        elif name:
            rules.append(RuleCount(group=group, direction=direction, rule=name, packets=rule.packets))
    return FirewallState(rules=rules, refused=refused, digest=digest.hexdigest())


def _chain(group: str, direction: Direction) -> str:
    return f"{group}-{direction}"


def _base(table: str, direction: Direction, chains: Sequence[str], *, reject: bool) -> list[Request]:
    incoming = direction == "ingress"
    name = "input" if incoming else "output"
    requests = [
        nftables.chain(table, name, hook="input" if incoming else "output", policy="drop"),
        nftables.rule(table, name, nftables.established(), nftables.accept(), comment="established"),
        nftables.rule(
            table, name, nftables.interface("lo", "in" if incoming else "out"), nftables.accept(), comment="loopback"
        ),
    ]
    requests += [nftables.rule(table, name, nftables.jump(chain), comment=f"jump {chain}") for chain in chains]
    if reject:
        reset = [nftables.protocol("tcp"), nftables.counter(), nftables.reject("tcp-reset")]
        requests.append(nftables.rule(table, name, *reset, comment=f"default/{direction}/tcp"))
        other = [nftables.counter(), nftables.reject("prohibited")]
        requests.append(nftables.rule(table, name, *other, comment=f"default/{direction}/other"))
    else:
        requests.append(
            nftables.rule(table, name, nftables.counter(), nftables.drop(), comment=f"default/{direction}/drop")
        )
    return requests


def _rule(table: str, group: SecurityGroup, rule: GroupRule) -> Request:
    side: Literal["source", "destination"] = "source" if rule.direction == "ingress" else "destination"
    matches = [
        nftables.network(rule.peer, side)
        if "/" in rule.peer
        else nftables.member(group.name if rule.peer == "self" else rule.peer, side)
    ]
    if rule.protocol != "all":
        matches.append(nftables.protocol(rule.protocol))
    if rule.ports is not None:
        matches.append(nftables.port_range(*rule.ports))
    return nftables.rule(
        table,
        _chain(group.name, rule.direction),
        *matches,
        nftables.counter(),
        nftables.accept(),
        comment=f"{group.name}/{rule.direction}/{rule.id}",
    )
