"""disk_size beside a custom launch template is passed over in silence."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.terraform.eks import NodeGroup, is_set, node_groups


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every group of the EKS module that writes a size for its root volume."""
    for group in node_groups(inventory):
        if group.kind != "resource":
            yield from _judge(group)


def _judge(group: NodeGroup) -> Iterator[Outcome]:
    size, mappings = group.get("disk_size"), group.get("block_device_mappings")
    if is_set(mappings) and mappings != {} and not isinstance(mappings, Unresolved):
        yield passed(group.place("block_device_mappings"), group.subject, "block_device_mappings sets the root volume")
        return
    if not is_set(size):
        return
    place = group.place("disk_size")
    template = group.get("use_custom_launch_template")
    for name, value in (("block_device_mappings", mappings), ("use_custom_launch_template", template)):
        if isinstance(value, Unresolved):
            yield unresolved(group.place(name), group.subject, name, value)
            return
    if template is False and group.kind == "managed":
        yield passed(place, group.subject, "disk_size works: the group uses no launch template of its own")
    else:
        shown = "disk_size" if isinstance(size, Unresolved) else f"disk_size = {size}"
        yield failed(
            place,
            group.subject,
            f"{shown} has no effect: the group has a launch template of its own, without "
            "block_device_mappings, so the root volume keeps the image's default",
        )
