"""Traffic between nodes that only an address-based rule lets pass."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.terraform.eks import node_groups
from firstfault.checks.terraform.security_groups import TRAINING_PORTS, groups_of, open_ports


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every GPU group whose nodes may reach each other."""
    for group in node_groups(inventory):
        if not group.is_gpu or group.size("max") in {0, 1}:
            continue
        groups, _ = groups_of(group)
        rules = [rule for item in groups for rule in item.rules if rule.direction == "ingress"]
        own = [rule for rule in rules if "self" in rule.peers]
        by_address = [rule for rule in rules if any(peer.startswith("cidr:") for peer in rule.peers)]
        if open_ports(own, "tcp", TRAINING_PORTS):
            yield passed(groups[0].place, group.subject)
        elif open_ports([*own, *by_address], "tcp", TRAINING_PORTS):
            rule = by_address[0]
            yield failed(
                rule.place,
                group.subject,
                f"only {rule.address} ({', '.join(rule.peers)}) lets the nodes reach each "
                "other; no self-referencing rule covers the training ports",
            )
