"""The EC2NodeClass of every GPU NodePool must size the volume that holds images."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.karpenter import gpu_node_pools, node_class_of
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.terraform.eks import is_set


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the class behind each GPU NodePool."""
    for pool in gpu_node_pools(inventory):
        group, name, item = node_class_of(inventory, pool)
        if group != "karpenter.k8s.aws":
            continue  # Auto Mode's NodeClass gives 80 GiB by default
        if item is None:
            place = pool.place("spec", "template", "spec", "nodeClassRef")
            yield unknown(place, pool.subject, f"EC2NodeClass {name} is not in these files")
        elif is_set(item.get("spec", "blockDeviceMappings")) or item.get("spec", "instanceStorePolicy") == "RAID0":
            yield passed(item.place("spec", "blockDeviceMappings"), item.subject)
        else:
            yield failed(
                item.place("spec"), item.subject,
                f"NodePool {pool.name} makes GPU nodes with the default volume of 20 GiB",
            )  # fmt: skip
