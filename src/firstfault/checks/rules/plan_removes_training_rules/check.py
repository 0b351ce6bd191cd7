"""Rules between nodes that a plan destroys without putting anything in their place."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.terraform.model import TerraformConfig
from firstfault.checks.terraform.security_groups import TRAINING_PORTS, Rule, open_ports, security_groups

_RULES = ("aws_security_group_rule", "aws_vpc_security_group_ingress_rule")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every plan that destroys rules of security groups."""
    for config in inventory.terraform:
        if config.is_plan:
            yield from _judge(config)


def _judge(config: TerraformConfig) -> Iterator[Outcome]:
    removed_addresses = {
        block.address for block in config.find("resource", *_RULES) if block.get("change_actions") == ["delete"]
    }
    before: list[Rule] = []
    after: list[Rule] = []
    removed: list[Rule] = []
    for group in security_groups(config).values():
        for rule in group.rules:
            if not _between_nodes(rule):
                continue
            before.append(rule)
            (removed if rule.address in removed_addresses else after).append(rule)
    mine = [rule for rule in removed if "self" in rule.peers and open_ports([rule], "tcp", TRAINING_PORTS)]
    replaced = open_ports([rule for rule in after if "self" in rule.peers], "tcp", TRAINING_PORTS)
    cut = open_ports(before, "tcp", TRAINING_PORTS) and not open_ports(after, "tcp", TRAINING_PORTS)
    if cut:
        rule = (mine or removed)[0]
        addresses = ", ".join(item.address for item in removed)
        yield failed(rule.place, rule.address, f"destroys {addresses}: nothing lets the nodes reach each other then")
    elif mine and not replaced:
        rule = mine[0]
        left = ", ".join(item.address for item in after)
        yield failed(rule.place, rule.address, f"destroys the nodes' self-reference; {left} alone keeps training alive")
    elif removed_addresses:
        place = next(block.place() for block in config.find("resource", *_RULES) if block.address in removed_addresses)
        yield passed(place, config.root, "the rules that it destroys are not needed between nodes, or are replaced")


def _between_nodes(rule: Rule) -> bool:
    return rule.direction == "ingress" and any(peer == "self" or peer.startswith("cidr:") for peer in rule.peers)
