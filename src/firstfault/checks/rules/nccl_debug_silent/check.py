"""Whether NCCL would speak when a start fails."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container
from firstfault.checks.located import ABSENT, Unresolved
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import container_env, distributed_pods, gpu_containers, injected_env

_SPEAKS = {"INFO", "TRACE"}
_NEEDED = {"ALL", "INIT"}


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every container with a GPU of the distributed Pods."""
    injected = "NCCL_DEBUG" in injected_env(inventory)
    for pod in distributed_pods(inventory):
        for container in gpu_containers(pod):
            yield from _judge(inventory, container, injected=injected)


def _judge(inventory: Inventory, container: Container, *, injected: bool) -> Iterator[Outcome]:
    level = container_env(inventory, container, "NCCL_DEBUG")
    systems = container_env(inventory, container, "NCCL_DEBUG_SUBSYS")
    place = container.place("env")
    if isinstance(level, Unresolved):
        return
    if level is ABSENT and injected:
        yield passed(place, container.subject, "an admission policy sets NCCL_DEBUG")
    elif level is ABSENT:
        yield failed(place, container.subject, "NCCL_DEBUG is not set")
    elif str(level).upper() not in _SPEAKS:
        yield failed(place, container.subject, f"NCCL_DEBUG={level} is silent unless something fails inside NCCL")
    elif isinstance(systems, str) and not _NEEDED & {item.strip().upper() for item in systems.split(",")}:
        yield failed(place, container.subject, f"NCCL_DEBUG_SUBSYS={systems} leaves out INIT, the lines of the start")
    else:
        yield passed(place, container.subject)
