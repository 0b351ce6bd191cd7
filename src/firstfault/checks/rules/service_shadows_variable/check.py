"""Variables of Services must not shadow those that ranks read."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import SetYaml
from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject, PodView
from firstfault.checks.located import ABSENT
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import container_env, distributed_pods, gpu_containers

# What PyTorch and its launchers read, of the names that Kubernetes makes from the name of a Service.
_READ = frozenset({"MASTER_PORT", "RDZV_PORT", "PET_MASTER_PORT", "MAIN_PROCESS_PORT"})


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge ranks in whose namespace a Service has such a name."""
    shadowing = [
        (name, service)
        for service in inventory.objects("Service", "")
        if (name := service.name.upper().replace("-", "_") + "_PORT") in _READ
        and service.get("spec", "clusterIP") != "None"
    ]
    for pod in distributed_pods(inventory) if shadowing else []:
        for name, service in shadowing:
            if service.namespace == pod.owner.namespace:
                yield _judge(inventory, pod, service, name)


def _judge(inventory: Inventory, pod: PodView, service: KubeObject, name: str) -> Outcome:
    place = pod.place("enableServiceLinks")
    own = all(container_env(inventory, container, name) is not ABSENT for container in gpu_containers(pod))
    if pod.get("enableServiceLinks") is False or own:
        return passed(place, pod.subject)
    edit = SetYaml(
        path=pod.owner.path, line=pod.owner.place().line, steps=(*pod.steps, "enableServiceLinks"), value=False
    )
    return failed(place, pod.subject, f"{service.subject} sets {name}=tcp://… in this Pod", edits=[edit])
