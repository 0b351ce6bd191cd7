"""Size of a GPU node's root volume against the floor for GPU images and the ephemeral storage that Pods request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import ABSENT, Place, Unresolved, dig
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.quantity import parse_quantity
from firstfault.checks.terraform.eks import NodeGroup, is_set, node_groups
from firstfault.checks.terraform.values import as_number

_FLOOR_GIB = 80
_USABLE = 0.9
_GIB = 1024**3


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the root volume of every GPU group whose size is written."""
    wanted, who = _largest_request(inventory)
    for group in node_groups(inventory):
        if group.is_gpu:
            for size, place in _sizes(group):
                yield _judge(group, size, place, wanted, who)


def _judge(group: NodeGroup, size: Any, place: Place, wanted: float, who: str) -> Outcome:
    number = as_number(size)
    if isinstance(number, Unresolved):
        return unresolved(place, group.subject, "volume_size", number)
    if number < _FLOOR_GIB:
        return failed(place, group.subject, f"{number} GiB is less than the {_FLOOR_GIB} GiB that GPU images need")
    if wanted > number * _USABLE:
        return failed(
            place, group.subject,
            f"{who} requests {wanted:.0f} GiB of ephemeral storage; of {number} GiB the kubelet gives out "
            f"{number * _USABLE:.0f} at most",
        )  # fmt: skip
    return passed(place, group.subject)


def _largest_request(inventory: Inventory) -> tuple[float, str]:
    """Return the largest ephemeral-storage request of a GPU Pod in GiB, and the Pod."""
    largest, who = 0.0, ""
    for pod in inventory.gpu_pods:
        total = 0.0
        for container in pod.containers:
            request = container.resource("ephemeral-storage", "requests")
            value = request if request is not ABSENT else container.resource("ephemeral-storage")
            total += (parse_quantity(value) or 0.0) / _GIB
        if total > largest:
            largest, who = total, pod.subject
    return largest, who


def _sizes(group: NodeGroup) -> Iterator[tuple[Any, Place]]:
    """Yield the sizes of root volumes: of the module's mappings, or of the launch template's."""
    mappings = group.get("block_device_mappings")
    if isinstance(mappings, dict):
        for key, mapping in mappings.items():
            size = dig(mapping, "ebs", "volume_size")
            if is_set(size) and dig(mapping, "device_name") in _root_names(group):
                yield size, group.place("block_device_mappings", str(key), "ebs", "volume_size")
    template = group.launch_template
    devices = template.get("block_device_mappings") if template is not None else None
    if template is not None and isinstance(devices, list):
        for index, mapping in enumerate(devices):
            size = dig(mapping, "ebs", 0, "volume_size")
            if is_set(size) and dig(mapping, "device_name") in _root_names(group):
                yield size, template.place("block_device_mappings", index, "ebs", 0, "volume_size")


def _root_names(group: NodeGroup) -> set[str]:
    image = group.ami_type
    return {"/dev/xvdb"} if isinstance(image, str) and "BOTTLEROCKET" in image else {"/dev/xvda", "/dev/sda1"}
