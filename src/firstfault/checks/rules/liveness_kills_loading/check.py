"""Time that probes give a model server to load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import runs_vllm

_LEAST = 120


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge vLLM servers with a liveness or a startup probe."""
    for pod in inventory.gpu_pods:
        for container in pod.containers:
            if runs_vllm(container):
                yield from _judge(container)


def _judge(container: Container) -> Iterator[Outcome]:
    startup, liveness = container.body.get("startupProbe"), container.body.get("livenessProbe")
    if isinstance(startup, dict):
        seconds = _seconds(startup)
        place = container.place("startupProbe")
        if seconds < _LEAST:
            yield failed(place, container.subject, f"the startup probe gives the server {seconds} s to load")
        else:
            yield passed(place, container.subject)
    elif isinstance(liveness, dict):
        seconds = _seconds(liveness)
        place = container.place("livenessProbe")
        if seconds < _LEAST:
            yield failed(
                place, container.subject, f"without a startup probe, the liveness probe kills it after {seconds} s"
            )
        else:
            yield passed(place, container.subject)


def _seconds(probe: dict[str, Any]) -> int:
    """Return how long a probe lets pass before it kills: delay, then failures times period (defaults 0, 3, 10)."""

    def number(name: str, default: int) -> int:
        value = probe.get(name, default)
        return value if isinstance(value, int) else default

    return number("initialDelaySeconds", 0) + number("failureThreshold", 3) * number("periodSeconds", 10)
