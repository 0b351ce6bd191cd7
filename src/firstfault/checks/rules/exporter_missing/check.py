"""Rules about DCGM metrics need an exporter."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.exporter import exporters
from firstfault.checks.gpu_operator import gpu_operators
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.promql import gpu_alerts, series_of


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the exporters together with the first alert that needs one."""
    alerts = gpu_alerts(inventory)
    first = next(
        (
            alert
            for alert in alerts
            if any(item.metric.startswith("DCGM_") for item in series_of(inventory, alert) or ())
        ),
        None,
    )
    if first is None:
        return
    if exporters(inventory):
        yield passed(first.place("expr"), first.subject)
        return
    for operator in gpu_operators(inventory):
        enabled = operator.enabled("dcgmExporter")
        place = operator.place("dcgmExporter")
        if isinstance(enabled, Unresolved):
            yield unresolved(place, operator.subject, "dcgmExporter.enabled", enabled)
        else:
            yield failed(
                place,
                operator.subject,
                f"dcgmExporter is off, no other exporter is installed, and alert {first.name} reads its metrics",
            )
        return
    if inventory.complete:
        yield failed(first.place("expr"), first.subject, "nothing among the inputs exports DCGM metrics")
