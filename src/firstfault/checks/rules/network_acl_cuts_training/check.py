"""Ordered rules of a network ACL, for one packet between two private addresses in each direction."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved, find_unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.terraform.model import TerraformBlock
from firstfault.checks.terraform.security_groups import TRAINING_PORTS
from firstfault.checks.terraform.values import as_number

_LARGEST_SUBNET = 23


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the ACLs that write their rules inline."""
    for block in inventory.resources("aws_network_acl", "aws_default_network_acl"):
        for direction in ("ingress", "egress"):
            rules = block.get(direction)
            if isinstance(rules, list) and rules:
                yield _judge(block, direction, rules)


def _judge(block: TerraformBlock, direction: str, rules: list[Any]) -> Outcome:
    place, subject = block.place(direction), f"{block.address}#{direction}"
    missing = next(find_unresolved(rules), None)
    if missing is not None:
        return unresolved(place, subject, direction, missing)
    ordered = sorted(rules, key=_number)
    for port in sorted({port for ports in TRAINING_PORTS for port in ports}):
        rule = next((item for item in ordered if _matches(item, port)), None)
        if rule is None or rule.get("action") != "allow":
            what = "no rule allows it" if rule is None else f"rule {rule.get('rule_no')} denies it"
            return failed(place, subject, f"{direction} tcp {port} from or to another subnet: {what}")
    return passed(place, subject)


def _number(rule: dict[str, Any]) -> float:
    number = as_number(rule.get("rule_no", 0))
    return 0.0 if isinstance(number, Unresolved) else float(number)


def _matches(rule: dict[str, Any], port: int) -> bool:
    protocol = str(rule.get("protocol"))
    if protocol not in {"-1", "all", "6", "tcp"} or not _may_be_the_vpc(str(rule.get("cidr_block", ""))):
        return False
    first, last = as_number(rule.get("from_port", 0)), as_number(rule.get("to_port", 0))
    if protocol in {"-1", "all"}:
        return True
    return not isinstance(first, Unresolved) and not isinstance(last, Unresolved) and first <= port <= last


def _may_be_the_vpc(cidr: str) -> bool:
    """Tell whether a range covers other subnets: everything, or a private range larger than one subnet."""
    try:
        network = ip_network(cidr, strict=False)
    except ValueError:
        return False
    return network.prefixlen == 0 or (network.is_private and network.prefixlen <= _LARGEST_SUBNET)
