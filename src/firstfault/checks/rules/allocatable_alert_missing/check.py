"""Where rules watch GPUs, one must watch the allocatable GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.promql import gpu_alerts, is_gpu_allocatable, series_of


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the alerts together, when some of them watch GPU hardware."""
    hardware = None
    for alert in gpu_alerts(inventory):
        series = series_of(inventory, alert) or []
        if any(is_gpu_allocatable(item) for item in series):
            yield passed(alert.place("expr"), alert.subject)
            return
        if any(item.metric.startswith("DCGM_") for item in series):
            hardware = hardware or alert
    if hardware is not None:
        yield failed(hardware.place(), hardware.subject, "alerts read DCGM metrics, none reads the allocatable GPUs")
