"""Time to live of finished GPU jobs."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import ABSENT
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import smoke_jobs, training_pods

_HOUR = 3600


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the Jobs of GPU Pods that set a time to live; smoke tests come again by themselves."""
    smoke = {id(item) for item in smoke_jobs(inventory)}
    for pod in training_pods(inventory):
        owner = pod.owner
        steps = ("spec", "jobTemplate", "spec") if owner.kind == "CronJob" else ("spec",)
        value = owner.get(*steps, "ttlSecondsAfterFinished")
        if value is ABSENT or not isinstance(value, int) or id(owner) in smoke:
            continue
        place = owner.place(*steps, "ttlSecondsAfterFinished")
        if value < _HOUR:
            yield failed(place, owner.subject, f"Pods and logs are deleted {value} s after the end")
        else:
            yield passed(place, owner.subject)
