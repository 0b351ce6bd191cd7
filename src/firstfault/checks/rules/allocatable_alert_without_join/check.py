"""The comparison with zero needs a join with the nodes that have GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.promql import GPU_RESOURCE, Selector, gpu_alerts, is_gpu_allocatable, names_gpu_nodes, series_of


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every alert that compares allocatable GPUs of nodes with zero."""
    for alert in gpu_alerts(inventory):
        series = series_of(inventory, alert) or []
        if not any(is_gpu_allocatable(item) and _is_zero(item) for item in series):
            continue
        place = alert.place("expr")
        if any(names_gpu_nodes(item) for item in series):
            yield passed(place, alert.subject)
        elif any(
            item.metric == "kube_node_status_capacity" and GPU_RESOURCE.search(item.label("resource"))
            for item in series
        ):
            message = (
                "joined with the capacity, which the kubelet sets to 0 as well five minutes after the plugin is gone"
            )
            yield failed(place, alert.subject, message)
        else:
            yield failed(place, alert.subject, "no join with the labels of GPU nodes: nodes without GPUs count, too")


def _is_zero(item: Selector) -> bool:
    return not item.negated and item.compare in {("==", 0.0), ("<", 1.0), ("<=", 0.0)}
