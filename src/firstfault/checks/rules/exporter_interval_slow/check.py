"""Collection interval of dcgm-exporter, where alerts read its metrics."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.exporter import exporters
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.promql import gpu_alerts, series_of

_LONGEST_S = 15.0
_SHORTEST_S = 0.1


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every exporter, when alerts read metrics of DCGM."""
    series = (item for alert in gpu_alerts(inventory) for item in series_of(inventory, alert) or ())
    if not any(item.metric.startswith("DCGM_") for item in series):
        return
    for exporter in exporters(inventory):
        interval = exporter.interval_s
        if isinstance(interval, Unresolved):
            yield unresolved(exporter.place, exporter.subject, "the collection interval", interval)
        elif interval > _LONGEST_S:
            yield failed(exporter.place, exporter.subject, f"DCGM is asked every {interval:g} s only")
        elif interval < _SHORTEST_S:
            message = f"an interval of {interval * 1000:g} ms: the option counts in milliseconds"
            yield failed(exporter.place, exporter.subject, message)
        else:
            yield passed(exporter.place, exporter.subject)
