"""The vpc-cni add-on must exist before the nodes."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import AddArgument, Edit, SetArgument
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved, dig
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.terraform.eks import EksModule, eks_modules, is_set, node_groups

_NO_DEFAULT_CNI = 21


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the vpc-cni add-on of clusters that have node groups of the module."""
    with_groups = {group.eks.block.address for group in node_groups(inventory) if group.eks is not None}
    for eks in eks_modules(inventory):
        argument, addons = eks.addons
        if eks.block.address in with_groups and isinstance(addons, dict) and "vpc-cni" in addons:
            yield _judge(eks, argument, addons["vpc-cni"])


def _judge(eks: EksModule, argument: str, addon: object) -> Outcome:
    place, subject = eks.block.place(argument, "vpc-cni"), f"{eks.block.address}#vpc-cni"
    value = dig(addon, "before_compute")
    if isinstance(value, Unresolved):
        return unresolved(place, subject, "before_compute", value)
    if value is True:
        return passed(eks.block.place(argument, "vpc-cni", "before_compute"), subject)
    if eks.majors[0] >= _NO_DEFAULT_CNI:
        why = "the cluster has no CNI before this add-on, and it waits for the nodes"
        return failed(place, subject, why, edits=[_edit(eks, argument)])
    if is_set(dig(addon, "configuration_values")):
        why = "nodes start before these settings and keep the old ones until they are replaced"
        return failed(place, subject, why, edits=[_edit(eks, argument)])
    return passed(place, subject, "the default CNI covers the gap")


def _edit(eks: EksModule, argument: str) -> Edit:
    if is_set(eks.block.get(argument, "vpc-cni", "before_compute")):
        place = eks.block.place(argument, "vpc-cni", "before_compute")
        return SetArgument(path=place.path, line=place.line, name="before_compute", value="true")
    place = eks.block.place(argument, "vpc-cni")
    return AddArgument(path=place.path, line=place.line, name="before_compute", value="true")
