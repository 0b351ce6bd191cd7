"""GPU nodes need a root volume of their own size, not the default one."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unknown, unresolved
from firstfault.checks.terraform.eks import NodeGroup, is_set, node_groups


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every group of GPU nodes."""
    for group in node_groups(inventory):
        if group.is_gpu:
            yield from _judge(group)


def _judge(group: NodeGroup) -> Iterator[Outcome]:
    if is_set(group.get("disk_size")):
        return  # root-volume-size-ignored says whether that works
    mappings = group.get("block_device_mappings")
    place = group.place("block_device_mappings")
    if group.kind == "resource" and is_set(group.get("launch_template")):
        template = group.launch_template
        if template is None:
            yield unknown(place, group.subject, "the launch template of the group is not in these files")
            return
        mappings, place = template.get("block_device_mappings"), template.place("block_device_mappings")
    if isinstance(mappings, Unresolved):
        yield unresolved(place, group.subject, "block_device_mappings", mappings)
    elif is_set(mappings) and mappings:
        yield passed(place, group.subject)
    else:
        yield failed(place, group.subject, "neither disk_size nor block_device_mappings: the root volume gets 20 GiB")
