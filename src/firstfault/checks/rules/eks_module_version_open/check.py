"""An open version and an unwritten toggle: the module's next default decides."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.terraform.eks import eks_modules, is_set

_TOGGLE = "node_security_group_enable_recommended_rules"


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the version constraint of every call of the EKS module."""
    for eks in eks_modules(inventory):
        if eks.config.is_plan:
            continue
        version = eks.block.get("version")
        place = eks.place("version")
        _, highest = eks.majors
        if isinstance(version, Unresolved):
            yield unresolved(place, eks.block.address, "version", version)
        elif highest is not None or is_set(eks.block.get(_TOGGLE)):
            yield passed(place, eks.block.address)
        else:
            written = f'version "{version}"' if is_set(version) else "no version"
            yield failed(place, eks.block.address, f"{written} admits the next major, and {_TOGGLE} is not written")
