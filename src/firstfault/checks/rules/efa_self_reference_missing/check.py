"""EFA needs all traffic to and from the group itself."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import dig
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.terraform.eks import NodeGroup, node_groups
from firstfault.checks.terraform.security_groups import SecurityGroup, groups_of

_OWN_GROUP_MAJOR = 21


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every node group with EFA interfaces."""
    for group in node_groups(inventory):
        if _has_efa(group):
            yield _judge(group)


def _has_efa(group: NodeGroup) -> bool:
    if group.get("enable_efa_support") is True:
        return True
    template = group.launch_template
    interfaces = template.get("network_interfaces") if template is not None else None
    return isinstance(interfaces, list) and any(
        str(dig(item, "interface_type")).startswith("efa") for item in interfaces
    )


def _judge(group: NodeGroup) -> Outcome:
    place = group.place("enable_efa_support")
    if group.eks is not None and group.eks.majors[0] >= _OWN_GROUP_MAJOR:
        return passed(place, group.subject, "the module gives the node group a security group with both rules")
    groups, missing = groups_of(group)
    lacking = [direction for direction in ("ingress", "egress") if not _allows_itself(groups, direction)]
    if not lacking:
        return passed(place, group.subject)
    why = missing or next((item.unknown for item in groups if item.unknown), "")
    if why or not groups:
        return unknown(place, group.subject, f"the rules for EFA cannot be judged: {why or 'no group is known'}")
    where = groups[0].place if group.eks is None else place
    return failed(
        where, group.subject, f"no group of the nodes allows all {' and all '.join(lacking)} traffic of itself"
    )


def _allows_itself(groups: list[SecurityGroup], direction: str) -> bool:
    return any(
        rule.direction == direction and rule.protocol in {"-1", "all"} and "self" in rule.peers
        for item in groups
        for rule in item.rules
    )
