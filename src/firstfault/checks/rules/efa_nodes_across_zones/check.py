"""EFA groups must stay in one subnet."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.terraform.eks import is_set, node_groups

_CALLER_CHOOSES = 21


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge groups with EFA whose subnets are known as a list."""
    for group in node_groups(inventory):
        if group.get("enable_efa_support") is not True:
            continue
        if group.eks is not None and group.eks.majors[0] < _CALLER_CHOOSES:
            continue  # the module chooses one subnet
        subnets, place = group.get("subnet_ids"), group.place("subnet_ids")
        if not is_set(subnets) and group.eks is not None:
            subnets, place = group.eks.get("subnet_ids"), group.place()
        if isinstance(subnets, list):
            if len(subnets) == 1:
                yield passed(place, group.subject)
            else:
                yield failed(place, group.subject, f"{len(subnets)} subnets: the nodes may land in different zones")
