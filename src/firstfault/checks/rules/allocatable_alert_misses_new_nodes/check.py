"""Beside `== 0` there must be an alert for GPU nodes without the series."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.promql import gpu_alerts, is_gpu_allocatable, names_gpu_nodes, series_of


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the alerts on allocatable GPUs together: one of them must see nodes that never had the key."""
    first = None
    for alert in gpu_alerts(inventory):
        series = series_of(inventory, alert) or []
        if not any(is_gpu_allocatable(item) for item in series):
            continue
        if any(item.negated and is_gpu_allocatable(item) for item in series) and any(
            names_gpu_nodes(item) and not item.negated for item in series
        ):
            yield passed(alert.place("expr"), alert.subject)
            return
        first = first or alert
    if first is not None:
        yield failed(first.place("expr"), first.subject, "no alert finds GPU nodes for which the series does not exist")
