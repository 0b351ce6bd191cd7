"""Pods of the smoke test must be on different nodes."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import PodView
from firstfault.checks.labels import selects
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import smoke_jobs

_HOST = "kubernetes.io/hostname"
_WHOLE_NODE = 8


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the Pods of every smoke CronJob."""
    jobs = smoke_jobs(inventory)
    for pod in inventory.gpu_pods:
        if any(pod.owner is job for job in jobs):
            yield _judge(pod)


def _judge(pod: PodView) -> Outcome:
    spec = ("spec", "jobTemplate", "spec")
    values = [pod.owner.get(*spec, name) for name in ("completions", "parallelism")]
    counts = [value for value in values if isinstance(value, int)]
    place = pod.owner.place(*spec, "parallelism")
    parallel = pod.owner.get(*spec, "parallelism")
    if not counts or max(counts) < 2:
        return failed(place, pod.subject, "runs one Pod, so nothing passes between nodes")
    if not isinstance(parallel, int) or parallel < 2:
        return failed(place, pod.subject, "runs its Pods one after the other (parallelism is 1), so they never meet")
    if _apart(pod) or pod.gpus >= _WHOLE_NODE:
        return passed(pod.place("affinity"), pod.subject)
    return failed(pod.place("affinity"), pod.subject, f"nothing keeps its {parallel} Pods on different nodes")


def _apart(pod: PodView) -> bool:
    terms = pod.get("affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in terms if isinstance(terms, list) else []:
        if (
            isinstance(term, dict)
            and term.get("topologyKey") == _HOST
            and selects(term.get("labelSelector"), pod.labels)
        ):
            return True
    spreads = pod.get("topologySpreadConstraints")
    return any(
        isinstance(item, dict)
        and item.get("topologyKey") == _HOST
        and item.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
        and selects(item.get("labelSelector"), pod.labels)
        for item in (spreads if isinstance(spreads, list) else [])
    )
