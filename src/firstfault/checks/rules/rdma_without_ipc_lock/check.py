"""Containers with RDMA devices need the capability IPC_LOCK."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container
from firstfault.checks.located import dig
from firstfault.checks.outcome import Outcome, failed, passed

_RDMA = re.compile(
    r"rdma/.+|.*/(?:hca|rdma|roce|ib)[\w.-]*|nvidia\.com/(?:hostdev|sriov|mlnx|rdma)[\w.-]*|openshift\.io/mlx[\w.-]*"
)


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the containers that ask for GPUs and RDMA devices."""
    for pod in inventory.gpu_pods:
        for container in pod.containers:
            devices = _devices(container)
            if not devices or not container.gpus:
                continue
            place = container.place("securityContext")
            if _may_lock(container):
                yield passed(place, container.subject)
            else:
                yield failed(place, container.subject, f"asks for {', '.join(devices)} without the capability IPC_LOCK")


def _devices(container: Container) -> list[str]:
    limits = dig(container.body, "resources", "limits")
    return [str(name) for name in limits if _RDMA.fullmatch(str(name))] if isinstance(limits, dict) else []


def _may_lock(container: Container) -> bool:
    if dig(container.body, "securityContext", "privileged") is True:
        return True
    added = dig(container.body, "securityContext", "capabilities", "add")
    return isinstance(added, list) and bool(
        {"IPC_LOCK", "CAP_IPC_LOCK", "ALL", "SYS_ADMIN"} & {str(item) for item in added}
    )
