"""GPU instance types on plain images, when the operator among the inputs does not bring a driver."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.gpu_operator import gpu_operators
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.terraform.eks import node_groups

_PLAIN = ("_STANDARD", "_ARM_64", "AL2_x86_64", "BOTTLEROCKET_x86_64", "BOTTLEROCKET_ARM_64")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge groups of GPU instances whose image is written."""
    operators = gpu_operators(inventory)
    if not operators and not inventory.complete:
        return  # the operator may be installed from elsewhere
    for group in node_groups(inventory):
        image = group.ami_type
        if not group.is_gpu or not isinstance(image, str) or not image:
            continue
        place = group.place("ami_type")
        states = [operator.enabled("driver") for operator in operators]
        missing = next((state for state in states if isinstance(state, Unresolved)), None)
        if not image.endswith(_PLAIN) or True in states:
            yield passed(place, group.subject)
        elif missing is not None:
            yield unresolved(place, group.subject, "driver.enabled of the operator", missing)
        else:
            yield failed(place, group.subject, f"{image} has no driver, and no operator of the inputs installs one")
