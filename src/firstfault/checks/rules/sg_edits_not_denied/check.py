"""A cluster without any guard of its security groups, when the inputs are said to be complete."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.iam.group_guard import guards
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.terraform.eks import eks_modules


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every cluster of the EKS module, in complete inputs."""
    for eks in eks_modules(inventory):
        if guards(inventory):
            yield passed(eks.block.place(), eks.block.address)
        elif inventory.complete:
            yield failed(eks.block.place(), eks.block.address, "no policy of the inputs denies editing security groups")
