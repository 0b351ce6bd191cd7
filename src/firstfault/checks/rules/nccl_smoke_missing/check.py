"""Where everything is among the inputs, a smoke test of NCCL must be."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import distributed_pods, smoke_jobs


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the inputs as a whole, when they hold distributed GPU Pods."""
    for job in smoke_jobs(inventory):
        yield passed(job.place(), job.subject)
        return
    pods = distributed_pods(inventory)
    if pods and inventory.complete:
        message = "works over several nodes, and no CronJob among the inputs proves the path between them"
        yield failed(pods[0].owner.place(), pods[0].owner.subject, message)
