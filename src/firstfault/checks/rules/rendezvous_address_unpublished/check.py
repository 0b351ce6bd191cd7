"""Headless Services through which ranks meet must publish Pods that are not Ready."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import SetYaml
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.rendezvous import selected_pods
from firstfault.checks.workloads import distributed_pods


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the headless Services that select distributed Pods."""
    ranks = {id(pod) for pod in distributed_pods(inventory)}
    for service in inventory.objects("Service", ""):
        if service.get("spec", "clusterIP") != "None":
            continue
        if any(id(pod) in ranks for pod in selected_pods(inventory, service)):
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
