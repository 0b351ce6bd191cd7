"""Deadline of the smoke test's Jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.cron import longest_pause_s
from firstfault.checks.edits import SetYaml
from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import smoke_jobs

_JOB = ("spec", "jobTemplate", "spec")
_TIMEOUT = re.compile(r"(?:^|[\s;&|])timeout\s+(?:-\S+\s+)*\d+|firstfault|--timeout")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every smoke CronJob."""
    for job in smoke_jobs(inventory):
        yield _judge(inventory, job)


def _judge(inventory: Inventory, job: KubeObject) -> Outcome:
    steps = (*_JOB, "activeDeadlineSeconds")
    values = [job.get(*steps), job.get(*_JOB, "template", "spec", "activeDeadlineSeconds")]
    seconds = [value for value in values if isinstance(value, int)]
    place = job.place(*steps)
    pause = longest_pause_s(str(job.get("spec", "schedule")))
    if seconds:
        if pause is not None and min(seconds) > pause:
            message = f"activeDeadlineSeconds {min(seconds)} is longer than the {pause:.0f} s between two runs"
            return failed(place, job.subject, message)
        return passed(place, job.subject)
    words = " ".join(
        word for pod in inventory.pods if pod.owner is job for item in pod.containers for word in item.words
    )
    if _TIMEOUT.search(words):
        return passed(place, job.subject, "the command limits its own time")
    edit = SetYaml(path=job.path, line=job.place().line, steps=steps, value=300)
    return failed(place, job.subject, "no activeDeadlineSeconds: a run that hangs never fails", edits=[edit])
