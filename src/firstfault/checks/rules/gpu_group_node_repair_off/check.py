"""Node auto repair and the monitoring agent, for managed GPU groups."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import AddArgument, Edit
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.terraform.eks import NodeGroup, is_set, node_groups

_AGENT = "eks-node-monitoring-agent"


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every managed GPU group."""
    for group in node_groups(inventory):
        if group.is_gpu and group.kind != "self" and not group.config.is_plan:
            yield _judge(inventory, group)


def _judge(inventory: Inventory, group: NodeGroup) -> Outcome:
    values = (group.get("node_repair_config", "enabled"), group.get("node_repair_config", 0, "enabled"))
    place = group.place("node_repair_config")
    missing = next((value for value in values if isinstance(value, Unresolved)), None)
    if missing is not None:
        return unresolved(place, group.subject, "node_repair_config", missing)
    if True not in values:
        return failed(place, group.subject, "node auto repair is off", edits=_edits(group))
    if not _has_agent(inventory, group):
        return failed(place, group.subject, f"repair is on, but without the add-on {_AGENT} it sees no GPU condition")
    return passed(place, group.subject)


def _edits(group: NodeGroup) -> list[Edit]:
    """Offer to add the setting to a group of the module that does not write it at all."""
    if group.kind != "managed" or is_set(group.get("node_repair_config")):
        return []
    place = group.place()
    return [AddArgument(path=place.path, line=place.line, name="node_repair_config", value="{ enabled = true }")]


def _has_agent(inventory: Inventory, group: NodeGroup) -> bool:
    if group.eks is not None:
        _, addons = group.eks.addons
        if isinstance(addons, Unresolved) or (isinstance(addons, dict) and _AGENT in addons):
            return True
    names = {block.get("addon_name") for block in inventory.resources("aws_eks_addon")}
    charts = {block.get("chart") for block in inventory.resources("helm_release")}
    if _AGENT in names | charts:
        return True
    # A group beside its cluster's configuration: the add-on belongs to the cluster, which is not here.
    clusters = inventory.resources("aws_eks_cluster")
    return group.eks is None and not clusters and not names
