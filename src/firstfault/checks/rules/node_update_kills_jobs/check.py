"""Updates that ignore disruption budgets or drain all nodes at once."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import SetArgument
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.terraform.eks import NodeGroup, node_groups
from firstfault.checks.terraform.values import as_number


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge managed GPU groups that say anything about their updates."""
    for group in node_groups(inventory):
        if group.is_gpu and group.kind != "self":
            yield from _judge(group)


def _judge(group: NodeGroup) -> Iterator[Outcome]:
    if group.get("force_update_version") is True:
        place = group.place("force_update_version")
        edit = SetArgument(path=place.path, line=place.line, name="force_update_version", value="false")
        yield failed(place, group.subject, "force_update_version evicts over every budget", edits=[edit])
        return
    for path in (("update_config",), ("update_config", 0)):
        percentage = as_number(group.get(*path, "max_unavailable_percentage"))
        count = as_number(group.get(*path, "max_unavailable"))
        desired = group.size("desired")
        everything = not isinstance(percentage, Unresolved) and percentage >= 100
        if not isinstance(count, Unresolved) and isinstance(desired, int) and desired > 1:
            everything = everything or count >= desired
        if everything:
            yield failed(group.place("update_config"), group.subject, "an update may take all nodes at once")
            return
        if not isinstance(percentage, Unresolved) or not isinstance(count, Unresolved):
            yield passed(group.place("update_config"), group.subject)
