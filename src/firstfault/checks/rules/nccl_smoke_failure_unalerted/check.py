"""Where rules are among the inputs, one must see the smoke test fail."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.promql import Selector, series_of
from firstfault.checks.workloads import smoke_jobs

_JOB_METRICS = re.compile(r"kube_job_(?:status_failed|failed|status_succeeded|complete)")
_CRON_METRICS = re.compile(r"kube_cronjob_status_last_(?:successful|schedule)_time")
_OWN = re.compile(r"smoke|nccl", re.IGNORECASE)


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every smoke CronJob, when alerting rules are among the inputs."""
    if not inventory.alerts:
        return
    series = [item for alert in inventory.alerts for item in series_of(inventory, alert) or ()]
    for job in smoke_jobs(inventory):
        if any(_sees(item, job) for item in series):
            yield passed(job.place(), job.subject)
        else:
            yield failed(job.place(), job.subject, f"none of {len(inventory.alerts)} alerts sees it fail")


def _sees(item: Selector, job: KubeObject) -> bool:
    if _JOB_METRICS.fullmatch(item.metric):
        # Jobs of a CronJob are called NAME-NUMBER.
        return all(
            _holds(matcher, {"job_name": f"{job.name}-29000000", "namespace": job.namespace}) for matcher in item.labels
        )
    if _CRON_METRICS.fullmatch(item.metric):
        return all(_holds(matcher, {"cronjob": job.name, "namespace": job.namespace}) for matcher in item.labels)
    return bool(_OWN.search(item.metric))


def _holds(matcher: tuple[str, str, str], actual: dict[str, str]) -> bool:
    name, operator, value = matcher
    if not actual.get(name):
        return True
    try:
        found = re.fullmatch(value, actual[name]) is not None if "~" in operator else value == actual[name]
    except re.error:
        return False
    return found != operator.startswith("!")
