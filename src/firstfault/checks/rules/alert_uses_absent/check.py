"""absent() on the allocatable GPUs of nodes never fires."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.promql import gpu_alerts, is_gpu_allocatable, series_of


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every alert that reads the allocatable GPUs."""
    for alert in gpu_alerts(inventory):
        series = [item for item in series_of(inventory, alert) or () if is_gpu_allocatable(item)]
        if not series:
            continue
        wrapped = next((call for item in series for call in item.calls if call.startswith("absent")), "")
        place = alert.place("expr")
        if wrapped:
            message = f"{wrapped}() is empty while the series exists; without the plugin it exists with the value 0"
            yield failed(place, alert.subject, message)
        else:
            yield passed(place, alert.subject)
