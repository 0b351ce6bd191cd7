"""Judges what a plan takes away. An interface obeys the union of its groups, so a loss counts only without a cover.

What training needs between nodes: TCP 1025-65535 in, the same out, and DNS. A rule protects a need of its group when
its ports, perhaps together with other rules', cover the need's, and its other side covers the nodes: the group itself,
a group on the same interfaces, or a network as wide as the VPC.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.guardrails.lock.plan import Peer, Plan, SecurityGroupRule

__all__ = ["LockReport", "Loss", "judge"]

Outcome = Literal["pass", "refuse", "unknown"]
# Where the VPC's network is not in the plan, a private network of at least this size counts as all of it.
_ASSUMED_VPC_PREFIX = {4: 20, 6: 56}


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """Something that training needs of the nodes' groups."""

    name: str
    direction: Literal["ingress", "egress"]
    protocol: str
    ports: tuple[int, int]


NEEDS = (
    Need(name="nodes reach each other (TCP 1025-65535)", direction="ingress", protocol="tcp", ports=(1025, 65535)),
    Need(name="nodes may send (TCP 1025-65535)", direction="egress", protocol="tcp", ports=(1025, 65535)),
    Need(name="nodes resolve names (UDP 53)", direction="ingress", protocol="udp", ports=(53, 53)),
)


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A need that a group no longer covers after the plan.

    Attributes:
        group: Id of the security group.
        need: What is lost.
        rules: The rules that covered it and go: "address: rule".
        covered_by: Rules of other groups that still cover it, if the groups are on the same interfaces.
        outcome: refuse: nothing covers it · unknown: something may, which is known only after the apply · pass: it is
            covered.
    """

    group: str
    need: str
    rules: list[str]
    covered_by: list[str]
    outcome: Outcome


class LockReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `guard lock --format json` prints.

    Attributes:
        schema: "firstfault.guard/1".
        command: "lock".
        result: pass, refuse or unknown.
        losses: Needs that a group loses.
        also_removed: Other rules that the plan removes (webhook ports, kubelet): side effects, not judged.
        notes: Assumptions that were made.
    """

    schema: str = "firstfault.guard/1"
    command: str = "lock"
    result: Outcome
    losses: list[Loss]
    also_removed: list[str]
    notes: list[str]


def judge(plan: Plan, *, strict: bool = False) -> LockReport:
    """Judge a plan.

    Args:
        plan: `read_plan`.
        strict: Refuse also where only another group covers the loss: training lives on, one rule from failing.
    """
    losses = [loss for need in NEEDS for loss in _losses(plan, need, strict)]
    losses += list(_efa_losses(plan))
    judged = {line for loss in losses for line in loss.rules}
    gone = [rule for rule in plan.before if not _still_there(rule, plan.after)]
    also = sorted({_line(rule) for rule in gone} - judged)
    notes = list(_notes(plan, losses))
    result: Outcome = "pass"
    outcomes = {loss.outcome for loss in losses}
    if plan.teardown:
        notes.append("the plan destroys every node and the cluster: nothing is left that would need the rules")
    elif "refuse" in outcomes:
        result = "refuse"
    elif "unknown" in outcomes or not plan.complete:
        result = "unknown"
    if not plan.complete:
        notes.append("this plan is not complete (errored, changes are deferred, or some cannot be read)")
    return LockReport(result=result, losses=losses, also_removed=also, notes=notes)


def _losses(plan: Plan, need: Need, strict: bool) -> Iterator[Loss]:
    for group in _groups(plan.before):
        mine = [rule for rule in plan.before if rule.group == group]
        if not _covers(mine, need, plan, group):
            continue
        kept = [rule for rule in plan.after if rule.group == group]
        if _covers([rule for rule in kept if rule.certain], need, plan, group):
            continue
        cover = _covering_groups(plan, need, group, mine)
        lost = [rule for rule in mine if _relevant(rule, need, plan, group) and not _still_there(rule, kept)]
        outcome: Outcome = "refuse"
        if cover:
            outcome = "refuse" if strict else "pass"
        elif _may_cover(plan, need, group):
            outcome = "unknown"
        yield Loss(
            group=group,
            need=need.name,
            rules=[_line(r) for r in lost],
            covered_by=[_line(r) for r in cover],
            outcome=outcome,
        )


def _efa_losses(plan: Plan) -> Iterator[Loss]:
    """EFA needs all traffic between members of the group, in both directions; a network does not stand in for it."""
    if not plan.efa:
        return
    for group in _groups(plan.before):
        for direction in ("ingress", "egress"):
            mine = [
                r for r in plan.before if r.group == group and r.direction == direction and _all_traffic_to_itself(r)
            ]
            kept = [
                r for r in plan.after if r.group == group and r.direction == direction and _all_traffic_to_itself(r)
            ]
            if mine and not any(rule.certain for rule in kept):
                need = f"EFA ({direction}: all traffic of the group with itself)"
                outcome: Outcome = "unknown" if kept else "refuse"
                yield Loss(group=group, need=need, rules=[_line(r) for r in mine], covered_by=[], outcome=outcome)


def _all_traffic_to_itself(rule: SecurityGroupRule) -> bool:
    return rule.protocol == "-1" and any(peer.kind == "self" for peer in rule.peers)


def _covering_groups(plan: Plan, need: Need, group: str, lost: list[SecurityGroupRule]) -> list[SecurityGroupRule]:
    """Return certain rules of other groups which still cover the need.

    Another group's reference to itself protects only interfaces that carry that group: it counts where the plan shows
    the two together, and where what was lost is a network (a group whose only way was a network is an auxiliary one).
    """
    only_networks = not any(peer.kind == "self" for r in lost if _relevant(r, need, plan, group) for peer in r.peers)
    found: list[SecurityGroupRule] = []
    for other in _groups(plan.after):
        shown = _shown_together(plan, group, other)
        if other == group or shown is False:
            continue
        rules = [rule for rule in plan.after if rule.group == other and rule.certain]
        if not (shown or only_networks):
            rules = [rule for rule in rules if any(_wide(peer, plan) for peer in rule.peers)]
        if _covers(rules, need, plan, other):
            found += [rule for rule in rules if _relevant(rule, need, plan, other)]
    return found


def _may_cover(plan: Plan, need: Need, group: str) -> bool:
    """Whether a rule of which something is known only after the apply may be the replacement."""
    candidates = [rule for rule in plan.after if not rule.certain and rule.direction == need.direction]
    return any(
        rule.group in ("", group) and rule.protocol in ("-1", need.protocol, "none") and not _too_narrow(rule, need)
        for rule in candidates
    )


def _too_narrow(rule: SecurityGroupRule, need: Need) -> bool:
    return rule.ports[0] > need.ports[0] or rule.ports[1] < need.ports[1]


def _shown_together(plan: Plan, one: str, other: str) -> bool | None:
    """Whether the plan shows two groups on the same interfaces; None when it shows nothing about the first."""
    sets = [groups for groups in plan.together if one in groups]
    return any(other in groups for groups in sets) if sets else None


def _groups(rules: Iterable[SecurityGroupRule]) -> list[str]:
    return sorted({rule.group for rule in rules if rule.group})


def _covers(rules: list[SecurityGroupRule], need: Need, plan: Plan, group: str) -> bool:
    """Whether the ports of all relevant rules together cover the need's."""
    position = need.ports[0]
    for first, last in sorted(rule.ports for rule in rules if _relevant(rule, need, plan, group)):
        if first > position:
            return False
        position = max(position, last + 1)
    return position > need.ports[1]


def _relevant(rule: SecurityGroupRule, need: Need, plan: Plan, group: str) -> bool:
    if rule.direction != need.direction or rule.protocol not in ("-1", need.protocol):
        return False
    return any(_reaches_nodes(peer, plan, group) for peer in rule.peers)


def _reaches_nodes(peer: Peer, plan: Plan, group: str) -> bool:
    if peer.kind == "self":
        return True
    if peer.kind == "group":
        return _shown_together(plan, group, peer.value) is True
    return _wide(peer, plan)


def _wide(peer: Peer, plan: Plan) -> bool:
    """Whether a network covers the VPC, or is as wide as one where the VPC's own is not known."""
    if peer.kind != "cidr":
        return False
    try:
        network = ipaddress.ip_network(peer.value, strict=False)
        known = [ipaddress.ip_network(cidr, strict=False) for cidr in plan.vpc_cidrs]
    except ValueError:
        return False
    same = [vpc for vpc in known if vpc.version == network.version]
    if same:
        return any(vpc.subnet_of(network) for vpc in same)  # type: ignore[arg-type]
    return network.prefixlen <= _ASSUMED_VPC_PREFIX[network.version]


def _still_there(rule: SecurityGroupRule, after: list[SecurityGroupRule]) -> bool:
    """Whether the same rule exists after the plan, under whatever address."""
    return any(
        (rule.group, rule.direction, rule.protocol, rule.ports)
        == (other.group, other.direction, other.protocol, other.ports)
        and set(rule.peers) <= set(other.peers)
        for other in after
    )


def _line(rule: SecurityGroupRule) -> str:
    return f"{rule.address}: {rule}"


def _notes(plan: Plan, losses: list[Loss]) -> Iterator[str]:
    if any(loss.covered_by for loss in losses):
        yield (
            "another group still covers the loss, if it is on the same interfaces: training lives on, one rule from "
            "failing (--strict refuses this)"
        )
    if losses and not plan.vpc_cidrs:
        yield "the VPC's network is not in the plan: a network of /20 or wider counts as all of it"
