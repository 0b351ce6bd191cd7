"""Alerts on XIDs must cover the codes after which a GPU is not to be used."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.promql import Selector, gpu_alerts, series_of

_MUST = (48, 74, 79)
_XID = re.compile(r"xid", re.IGNORECASE)


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the alerts together, when some of them read metrics of GPUs."""
    first, covered, hardware = None, set(), None
    for alert in gpu_alerts(inventory):
        series = series_of(inventory, alert) or []
        if any(item.metric.startswith("DCGM_") for item in series):
            hardware = hardware or alert
        about = [item for item in series if _XID.search(item.metric) or item.label("xid")]
        if about:
            first = first or alert
            covered |= {code for code in _MUST if any(_sees(item, code) for item in about)}
    anchor = first or hardware
    if anchor is None:
        return
    missing = [code for code in _MUST if code not in covered]
    if first is None:
        yield failed(anchor.place(), anchor.subject, "alerts read DCGM metrics, none reads XIDs")
    elif missing:
        yield failed(first.place("expr"), first.subject, f"no alert covers XID {', '.join(map(str, missing))}")
    else:
        yield passed(first.place("expr"), first.subject)


def _sees(item: Selector, code: int) -> bool:
    for key, operator, value in item.labels:
        if _XID.search(key):
            try:
                found = re.fullmatch(value, str(code)) is not None if "~" in operator else value == str(code)
            except re.error:
                found = False
            if found == operator.startswith("!"):
                return False
    if item.compare is None or {"changes", "count_values", "increase", "count"} & set(item.calls):
        return True
    operator, number = item.compare
    return {
        "==": code == number, "!=": code != number, ">": code > number, "<": code < number,
        ">=": code >= number, "<=": code <= number,
    }[operator]  # fmt: skip
