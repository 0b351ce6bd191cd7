"""Node-to-node TCP for rendezvous and NCCL, over the union of a node's security groups."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.terraform.eks import NodeGroup, node_groups
from firstfault.checks.terraform.security_groups import TRAINING_PORTS, groups_of, open_ports

_TOGGLE = "node_security_group_enable_recommended_rules"


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every GPU group that may have two nodes."""
    for group in node_groups(inventory):
        if group.is_gpu and group.size("max") not in {0, 1}:
            yield from _judge(group)


def _judge(group: NodeGroup) -> Iterator[Outcome]:
    groups, missing = groups_of(group)
    rules = [rule for item in groups for rule in item.rules if rule.direction == "ingress"]
    open_now = [rule for rule in rules if "self" in rule.peers or any(peer.startswith("cidr:") for peer in rule.peers)]
    place = groups[0].place if groups else group.place("vpc_security_group_ids")
    if open_ports(open_now, "tcp", TRAINING_PORTS):
        yield passed(place, group.subject)
    elif group.eks is not None and group.eks.block.get(_TOGGLE) is False:
        return  # recommended-rules-off says it
    elif missing or any(item.unknown for item in groups) or not groups:
        why = missing or next((item.unknown for item in groups if item.unknown), "its security groups are not here")
        yield unknown(place, group.subject, f"traffic between the nodes cannot be judged: {why}")
    else:
        names = ", ".join(item.key for item in groups)
        have = [f"{rule.protocol} {rule.first}-{rule.last}" for rule in open_now]
        yield failed(
            place,
            group.subject,
            f"{names}: between nodes only {', '.join(have) or 'nothing'} is open; c10d needs "
            "29500 and NCCL the ephemeral ports 32768-60999",
        )
