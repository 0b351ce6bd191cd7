"""Headless Services through which ranks meet must publish Pods that are not Ready."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import SetYaml
from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject, PodView
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import distributed_pods


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the headless Services that select distributed Pods."""
    for service in inventory.objects("Service", ""):
        if service.get("spec", "clusterIP") != "None":
            continue
        if any(_selects(service, pod) for pod in distributed_pods(inventory)):
            place = service.place("spec", "publishNotReadyAddresses")
            if service.get("spec", "publishNotReadyAddresses") is True:
                yield passed(place, service.subject)
            else:
                edit = SetYaml(
                    path=service.path,
                    line=service.place().line,
                    steps=("spec", "publishNotReadyAddresses"),
                    value=True,
                )
                message = "ranks meet through this Service before they are Ready, and it publishes Ready Pods only"
                yield failed(place, service.subject, message, edits=[edit])


def _selects(service: KubeObject, pod: PodView) -> bool:
    selector = service.get("spec", "selector")
    if not isinstance(selector, dict) or not selector or service.namespace != pod.owner.namespace:
        return False
    if all(pod.labels.get(key) == value for key, value in selector.items()):
        return True
    # The Job controller labels its Pods itself.
    return (
        pod.owner.kind == "Job"
        and selector.get("job-name", selector.get("batch.kubernetes.io/job-name")) == pod.owner.name
    )
