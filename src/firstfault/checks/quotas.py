"""Snapshots of EC2 vCPU quotas (`aws service-quotas list-service-quotas --service-code ec2`), and what groups need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Place, Unresolved
from firstfault.checks.prometheus import Document
from firstfault.checks.terraform.eks import NodeGroup, node_groups
from firstfault.checks.terraform.instances import GPU_QUOTAS, has_gpu, quota_code, vcpus

__all__ = ["Demand", "Quota", "demands", "quotas", "regions_of"]


class Quota(msgspec.Struct, frozen=True, eq=False):
    """One quota of a snapshot, in vCPUs; `region` is empty where the snapshot does not say."""

    code: str
    value: float
    region: str
    place: Place

    @property
    def name(self) -> str:
        """Name in the console."""
        return GPU_QUOTAS[self.code]


class Demand(msgspec.Struct, frozen=True, eq=False):
    """What a node group asks of a quota, in vCPUs.

    Attributes:
        each: vCPUs of one node (the largest of its instance types).
        desired: vCPUs at its desired size; `most` at its largest.
        unknown: Why it cannot be told; empty when it can.
    """

    group: NodeGroup
    code: str
    each: int
    desired: int
    most: int
    unknown: str = ""


def quotas(inventory: Inventory) -> list[Quota]:
    """Return the GPU quotas of every snapshot among the inputs."""
    found: list[Quota] = inventory.memo("quotas", lambda: list(_quotas(inventory)))
    return found


def _quotas(inventory: Inventory) -> Iterator[Quota]:
    for document in inventory.documents:
        items = document.body.get("Quotas")
        for index, item in enumerate(items if isinstance(items, list) else []):
            if isinstance(item, dict) and item.get("QuotaCode") in GPU_QUOTAS:
                yield _quota(document, index, item)


def _quota(document: Document, index: int, item: dict[str, Any]) -> Quota:
    parts = str(item.get("QuotaArn", "")).split(":")
    value = item.get("Value")
    return Quota(
        str(item["QuotaCode"]),
        float(value) if isinstance(value, (int, float)) else 0.0,
        parts[3] if len(parts) > 3 else "",
        document.place("Quotas", index, "Value"),
    )


def demands(inventory: Inventory) -> list[Demand]:
    """Return what every GPU group asks of its quota."""
    return [demand for group in node_groups(inventory) for demand in _demand(group)]


def _demand(group: NodeGroup) -> Iterator[Demand]:
    types = group.instance_types
    if isinstance(types, Unresolved) or not any(has_gpu(item) for item in types):
        return
    gpu_types = [item for item in types if has_gpu(item)]
    sizes = [vcpus(item) for item in gpu_types]
    each = max((size for size in sizes if size is not None), default=0)
    code = quota_code(gpu_types[0], spot=group.is_spot)
    desired, most = group.size("desired"), group.size("max")
    missing = next((item.reason for item in (desired, most) if isinstance(item, Unresolved)), "")
    if missing or not each:
        yield Demand(group, code, each, 0, 0, missing or f"the vCPUs of {gpu_types[0]} are not known")
        return
    count = desired if isinstance(desired, int) else 1
    limit = most if isinstance(most, int) else max(count, 3 if group.eks is not None else count)
    yield Demand(group, code, each, count * each, limit * each)


def regions_of(group: NodeGroup) -> set[str] | None:
    """Return the regions of the configuration's AWS providers; None where they are not known."""
    regions: set[str] = set()
    for block in group.config.find("provider"):
        region = block.get("region")
        if block.name == "aws" and isinstance(region, str):
            regions.add(region)
        elif block.name == "aws" and isinstance(region, Unresolved):
            return None
    return regions or None
