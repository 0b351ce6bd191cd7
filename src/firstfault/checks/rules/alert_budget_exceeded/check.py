"""Worst case from the metric to the first notification, for critical alerts about GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.alerting import alertmanager_trees, evaluation_interval, scrape_interval
from firstfault.checks.exporter import collect_interval
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.prometheus import AlertRule
from firstfault.checks.promql import gpu_alerts, series_of

_BUDGET_S = 60.0
_PAGES = frozenset({"critical", "page", "emergency", "high", ""})


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the alerts that shall wake somebody; terms that the inputs do not tell are left out of the sum."""
    for alert in gpu_alerts(inventory):
        if str(alert.labels.get("severity", "")).lower() in _PAGES:
            yield _judge(inventory, alert)


def _judge(inventory: Inventory, alert: AlertRule) -> Outcome:
    if alert.hold_s is None:
        return unknown(alert.place("for"), alert.subject, f"`for: {alert.body['for']}` is not a duration")
    metrics = [item.metric for item in series_of(inventory, alert) or () if item.metric]
    waits = [
        route.group_wait_s
        for tree in alertmanager_trees(inventory)
        for route in tree.routes({**alert.labels, "alertname": alert.name})
    ]
    evaluation = alert.interval_s if alert.interval_s is not None else evaluation_interval(inventory)
    scrapes = [seconds for metric in metrics if (seconds := scrape_interval(inventory, metric)) is not None]
    terms = {
        "collect interval": collect_interval(inventory) if any(name.startswith("DCGM") for name in metrics) else 0.0,
        "scrape interval": max(scrapes) if scrapes else None,
        "evaluation interval": evaluation,
        "for": _held(alert.hold_s, evaluation),
        "group_wait": max(waits) if waits else None,
    }
    known = {name: seconds for name, seconds in terms.items() if seconds}
    total = sum(known.values())
    largest = max(known, key=lambda name: known[name], default="for")
    words = " + ".join(f"{seconds:g} s {name}" for name, seconds in known.items())
    missing = [name for name, seconds in terms.items() if seconds is None]
    rest = f"; not in the inputs: {', '.join(missing)}" if missing else ""
    place = alert.place("for") if largest == "for" else alert.place()
    if total > _BUDGET_S:
        return failed(
            place, alert.subject, f"{words} = {total:g} s, over {_BUDGET_S:g} s; the largest term is {largest}{rest}"
        )
    return passed(place, alert.subject, f"{words} = {total:g} s{rest}")


def _held(hold: float, evaluation: float | None) -> float:
    """Return what `for` really costs: it ends with an evaluation."""
    if not evaluation or not hold:
        return hold
    return -(-hold // evaluation) * evaluation
