"""The operator's own status does not tell whether nodes offer GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.promql import is_gpu_allocatable, series_of

_STATUS = re.compile(r"gpu_operator_(?:reconciliation|state|status)|clusterpolicy|cluster_policy", re.IGNORECASE)


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge alerts on the operator's status: another must read the allocatable GPUs."""
    listed = [(alert, series_of(inventory, alert) or []) for alert in inventory.alerts]
    watched = any(is_gpu_allocatable(item) for _, series in listed for item in series)
    for alert, series in listed:
        if any(
            _STATUS.search(item.metric)
            or (item.metric.startswith("kube_daemonset_") and "device-plugin" in item.label("daemonset"))
            for item in series
        ):
            place = alert.place("expr")
            if watched:
                yield passed(place, alert.subject)
            else:
                yield failed(
                    place,
                    alert.subject,
                    "no alert reads the allocatable GPUs; this one stays quiet when the plugin is switched off",
                )
