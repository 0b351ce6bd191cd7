"""ServiceMonitors and PodMonitors must be selected by a Prometheus object."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.monitoring import selected_by
from firstfault.checks.outcome import Outcome, failed, passed


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every monitor, when a Prometheus object is among the inputs."""
    if not inventory.objects("Prometheus", "monitoring.coreos.com"):
        return
    for kind, prefix in (("ServiceMonitor", "serviceMonitor"), ("PodMonitor", "podMonitor")):
        for item in inventory.objects(kind, "monitoring.coreos.com"):
            reason = selected_by(inventory, item, prefix)
            place = item.place("metadata", "labels")
            yield failed(place, item.subject, reason) if reason else passed(place, item.subject)
