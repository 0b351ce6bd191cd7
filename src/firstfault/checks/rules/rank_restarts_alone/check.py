"""Jobs whose ranks are restarted one by one although they need each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import PodView
from firstfault.checks.located import ABSENT
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import distributed_pods, gpu_containers

_ELASTIC = re.compile(r"--max[-_]restarts[= ][1-9]|--nnodes[= ]\d+:\d+|PET_MAX_RESTARTS")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge plain Jobs with several ranks."""
    for pod in distributed_pods(inventory):
        if pod.owner.kind == "Job":
            yield _judge(pod)


def _judge(pod: PodView) -> Outcome:
    owner = pod.owner
    words = " ".join(word for container in gpu_containers(pod) for word in container.words)
    if _ELASTIC.search(words):
        return passed(pod.place(), pod.subject, "torchrun restarts all ranks together")
    policy, limit = pod.get("restartPolicy"), owner.get("spec", "backoffLimit")
    per_index = owner.get("spec", "backoffLimitPerIndex")
    if policy == "OnFailure":
        return failed(pod.place("restartPolicy"), pod.subject, "restartPolicy OnFailure restarts one rank in its Pod")
    if per_index is not ABSENT or (limit is ABSENT or (isinstance(limit, int) and limit > 0)):
        shown = (
            "backoffLimitPerIndex"
            if per_index is not ABSENT
            else f"backoffLimit {'6 (the default)' if limit is ABSENT else limit}"
        )
        return failed(owner.place("spec", "backoffLimit"), pod.subject, f"{shown} makes a new Pod for one rank")
    return passed(pod.place("restartPolicy"), pod.subject)
