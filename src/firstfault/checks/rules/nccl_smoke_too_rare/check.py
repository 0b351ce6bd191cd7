"""Schedule and suspension of the smoke test."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.cron import longest_pause_s
from firstfault.checks.edits import SetYaml
from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.workloads import smoke_jobs

_LONGEST_S = 1800.0


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every smoke CronJob."""
    for job in smoke_jobs(inventory):
        yield _judge(job)


def _judge(job: KubeObject) -> Outcome:
    if job.get("spec", "suspend") is True:
        edit = SetYaml(path=job.path, line=job.place().line, steps=("spec", "suspend"), value=False)
        return failed(job.place("spec", "suspend"), job.subject, "is suspended", edits=[edit])
    schedule, place = str(job.get("spec", "schedule")), job.place("spec", "schedule")
    pause = longest_pause_s(schedule)
    if pause is None:
        return unknown(place, job.subject, f"the schedule {schedule!r} cannot be read")
    if pause > _LONGEST_S:
        message = f"schedule {schedule!r} leaves pauses of {pause / 60:.0f} minutes"
        return failed(place, job.subject, f"{message}, longer than {_LONGEST_S / 60:.0f}")
    return passed(place, job.subject)
