"""A vLLM Pod must not get the variables of Services, which collide with its own."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import SetYaml
from firstfault.checks.helm_values import render_hint
from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.located import ABSENT
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.rendezvous import selected_pods
from firstfault.checks.serving import chart_servers
from firstfault.checks.workloads import runs_vllm


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every Pod that runs vLLM, or that a Service called vllm selects, and say what charts leave open."""
    named = {id(pod): service for service in _called_vllm(inventory) for pod in selected_pods(inventory, service)}
    for pod in inventory.pods:
        service = named.get(id(pod))
        if service is None and not any(map(runs_vllm, pod.containers)):
            continue
        value = pod.get("enableServiceLinks")
        place = pod.place("enableServiceLinks")
        if value is False:
            yield passed(place, pod.subject)
        else:
            how = "is not set (default: true)" if value is ABSENT else f"is {value!r}"
            edit = SetYaml(
                path=pod.owner.path,
                line=pod.owner.place().line,
                steps=(*pod.steps, "enableServiceLinks"),
                value=False,
            )
            who = f"{service.subject} sets" if service else "a Service called vllm would set"
            message = f"enableServiceLinks {how}; {who} VLLM_PORT=tcp://… in this Pod"
            yield failed(place, pod.subject, message, edits=[edit])

    for release in chart_servers(inventory):
        why = "whether the chart's Pods get enableServiceLinks: false is in its templates"
        yield unknown(release.place, release.subject, f"{why}; {render_hint(release.place.path)}")


def _called_vllm(inventory: Inventory) -> Iterator[KubeObject]:
    """Services for which Kubernetes makes VLLM_PORT: those named so, with an address of their own."""
    for service in inventory.objects("Service", ""):
        if service.name == "vllm" and service.get("spec", "clusterIP") != "None":
            yield service
