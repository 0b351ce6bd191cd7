"""Distributed Pods that are bound to EFA instance types must request the interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import PodView
from firstfault.checks.located import dig
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.terraform.instances import supports_efa
from firstfault.checks.workloads import distributed_pods, gpu_containers

_KEYS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the distributed Pods whose instance types are written."""
    for pod in distributed_pods(inventory):
        types = _instance_types(pod)
        if types and all(supports_efa(item) for item in types):
            for container in gpu_containers(pod):
                place = container.place("resources")
                if container.efa:
                    yield passed(place, container.subject)
                else:
                    yield failed(place, container.subject, f"runs on {', '.join(types)} and requests no EFA interface")


def _instance_types(pod: PodView) -> list[str]:
    selector = pod.get("nodeSelector")
    found = [str(selector[key]) for key in _KEYS if isinstance(selector, dict) and key in selector]
    terms = pod.get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for term in terms if isinstance(terms, list) else []:
        found.extend(_values(dig(term, "matchExpressions")))
    return found


def _values(expressions: Any) -> list[str]:
    values: list[str] = []
    for expression in expressions if isinstance(expressions, list) else []:
        if isinstance(expression, dict) and expression.get("key") in _KEYS and expression.get("operator") == "In":
            listed = expression.get("values")
            values.extend(str(item) for item in (listed if isinstance(listed, list) else []))
    return values
