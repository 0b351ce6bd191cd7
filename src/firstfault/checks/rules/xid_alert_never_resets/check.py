"""The XID gauge keeps its last code: comparing it with zero never ends."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.promql import Selector, gpu_alerts, series_of

_GAUGE = "DCGM_FI_DEV_XID_ERRORS"
_COUNTS = frozenset({"increase", "rate", "irate", "delta"})


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every alert that reads the gauge."""
    for alert in gpu_alerts(inventory):
        series = series_of(inventory, alert) or []
        gauges = [item for item in series if item.metric == _GAUGE]
        if not gauges:
            continue
        place = alert.place("expr")
        counted = next((call for item in gauges for call in item.calls if call in _COUNTS), "")
        if counted:
            yield failed(place, alert.subject, f"{counted}() of a gauge that holds a code, not a count")
        elif all(_never_ends(item) for item in gauges) and "unless" not in alert.expr:
            yield failed(
                place,
                alert.subject,
                f"{_GAUGE} keeps the last code, so the comparison holds until the driver is loaded again",
            )
        else:
            yield passed(place, alert.subject)


def _never_ends(item: Selector) -> bool:
    if "changes" in item.calls or "count_values" in item.calls:
        return False
    return item.compare is None or item.compare in {(">", 0.0), ("!=", 0.0), (">=", 1.0)}
