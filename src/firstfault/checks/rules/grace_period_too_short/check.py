"""Explicit grace periods that leave no time to save."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import training_pods

_LEAST = 30


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge training Pods that write a grace period."""
    for pod in training_pods(inventory):
        value = pod.get("terminationGracePeriodSeconds")
        if not isinstance(value, int) or pod.owner.kind == "CronJob":
            continue
        place = pod.place("terminationGracePeriodSeconds")
        if value < _LEAST:
            yield failed(place, pod.subject, f"SIGKILL comes {value} s after SIGTERM")
        else:
            yield passed(place, pod.subject)
