"""Karpenter's NodePools as checks see them: which make GPU nodes, and of which class."""

from __future__ import annotations

from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.terraform.instances import has_gpu

__all__ = ["AUTO_MODE_GROUP", "gpu_node_pools", "node_class_of"]

AUTO_MODE_GROUP = "eks.amazonaws.com"
_CATEGORY = ("karpenter.k8s.aws/instance-category", "eks.amazonaws.com/instance-category")
_FAMILY = ("karpenter.k8s.aws/instance-family", "eks.amazonaws.com/instance-family")
_GPU_KEYS = ("instance-gpu-count", "instance-gpu-name", "instance-gpu-manufacturer", "instance-gpu-memory")
_GPU_CATEGORIES = frozenset({"g", "gr", "p"})


def gpu_node_pools(inventory: Inventory) -> list[KubeObject]:
    """Return the NodePools that can make GPU nodes only: their requirements or taints say so."""
    return [pool for pool in inventory.objects("NodePool", "karpenter.sh") if _is_gpu(pool)]


def _is_gpu(pool: KubeObject) -> bool:
    taints = pool.get("spec", "template", "spec", "taints")
    for taint in taints if isinstance(taints, list) else []:
        if isinstance(taint, dict) and str(taint.get("key", "")).startswith("nvidia.com/gpu"):
            return True
    requirements = pool.get("spec", "template", "spec", "requirements")
    return (
        any(_asks_for_gpu(item) for item in requirements if isinstance(item, dict))
        if isinstance(requirements, list)
        else False
    )


def _asks_for_gpu(requirement: dict[str, Any]) -> bool:
    key, operator = str(requirement.get("key", "")), requirement.get("operator")
    listed = requirement.get("values")
    values = [str(value) for value in listed] if isinstance(listed, list) else []
    if key.endswith(_GPU_KEYS):
        return operator in {"In", "Gt", "Exists"}
    if operator != "In" or not values:
        return False
    if key in _CATEGORY:
        return set(values) <= _GPU_CATEGORIES
    if key in _FAMILY:
        return all(has_gpu(f"{value}.xlarge") for value in values)
    return key == "node.kubernetes.io/instance-type" and all(has_gpu(value) for value in values)


def node_class_of(inventory: Inventory, pool: KubeObject) -> tuple[str, str, KubeObject | None]:
    """Return (API group, name, object or None) of the node class that a NodePool refers to."""
    reference = pool.get("spec", "template", "spec", "nodeClassRef")
    if not isinstance(reference, dict):
        return "", "", None
    group, name = str(reference.get("group", "")), str(reference.get("name", ""))
    kind = str(reference.get("kind", "EC2NodeClass"))
    found = next((item for item in inventory.objects(kind, group) if item.name == name), None)
    return group, name, found
