"""Taints of GPU NodePools and node groups against the tolerations of GPU Pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from firstfault.checks.inventory import Inventory
from firstfault.checks.karpenter import gpu_node_pools
from firstfault.checks.kube import PodView
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.terraform.eks import NodeGroup, node_groups

_EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
_HARD = {"NoSchedule", "NoExecute"}


class Taint(msgspec.Struct, frozen=True):
    """One taint that keeps Pods away."""

    key: str
    value: str
    effect: str
    where: str


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every GPU Pod, when all GPU nodes of the inputs are tainted."""
    sources = [
        list(_pool_taints(pool.subject, pool.get("spec", "template", "spec", "taints")))
        for pool in gpu_node_pools(inventory)
    ]
    sources += [list(_group_taints(group)) for group in node_groups(inventory) if group.is_gpu]
    if not sources:
        return
    for pod in inventory.gpu_pods:
        if pod.owner.kind == "DaemonSet":
            continue
        open_sources = [taints for taints in sources if all(_tolerated(pod, taint) for taint in taints)]
        place = pod.place("tolerations")
        if open_sources:
            yield passed(place, pod.subject)
        else:
            taint = next(taint for taint in sources[0] if not _tolerated(pod, taint))
            shown = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
            yield failed(place, pod.subject, f"{taint.where} has the taint {shown}, which the Pod does not tolerate")


def _pool_taints(where: str, taints: Any) -> Iterator[Taint]:
    for taint in taints if isinstance(taints, list) else []:
        if isinstance(taint, dict) and taint.get("effect") in _HARD:
            yield Taint(str(taint.get("key", "")), str(taint.get("value") or ""), str(taint["effect"]), where)


def _group_taints(group: NodeGroup) -> Iterator[Taint]:
    taints = group.get("taints")
    items = list(taints.values()) if isinstance(taints, dict) else taints if isinstance(taints, list) else []
    if group.kind == "resource":
        blocks = group.get("taint")
        items = blocks if isinstance(blocks, list) else []
    for taint in items:
        if isinstance(taint, dict) and not any(isinstance(value, Unresolved) for value in taint.values()):
            effect = _EFFECTS.get(str(taint.get("effect")), "")
            if effect in _HARD:
                yield Taint(str(taint.get("key", "")), str(taint.get("value") or ""), effect, group.subject)


def _tolerated(pod: PodView, taint: Taint) -> bool:
    tolerations = pod.get("tolerations")
    return any(
        _matches(item, taint)
        for item in (tolerations if isinstance(tolerations, list) else [])
        if isinstance(item, dict)
    )


def _matches(toleration: dict[str, Any], taint: Taint) -> bool:
    key, operator = toleration.get("key"), toleration.get("operator", "Equal")
    if toleration.get("effect") not in {None, "", taint.effect}:
        return False
    if not key:
        return bool(operator == "Exists")
    if key != taint.key:
        return False
    return bool(operator == "Exists" or str(toleration.get("value") or "") == taint.value)
