"""Critical alerts must end at a receiver that sends something."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.alerting import AlertmanagerTree, Route, alertmanager_trees, critical_labels
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge where critical alerts end; of several receivers of one alert, one that sends is enough."""
    for tree in alertmanager_trees(inventory):
        told: set[str] = set()
        for labels in critical_labels(inventory):
            routes = tree.routes(labels)
            receiver = routes[0].receiver if routes else ""
            if not routes or receiver in told:
                continue
            told.add(receiver)
            dead = [reason for route in routes if (reason := _why_dead(tree, route))]
            subject = f"{tree.subject}#{labels.get('alertname', 'critical')}"
            if len(dead) == len(routes):
                yield failed(tree.place_of_receiver(receiver), subject, "; ".join(dict.fromkeys(dead)))
            else:
                yield passed(tree.place_of_receiver(receiver), subject)


def _why_dead(tree: AlertmanagerTree, route: Route) -> str:
    if not route.receiver and tree.camel:
        return ""  # the operator's object may leave the receiver to the global configuration
    receiver = tree.receiver(route.receiver)
    if receiver is None:
        return f"severity=critical goes to {route.receiver!r}, which is not among the receivers"
    sends = any(key.lower().endswith("configs") and value for key, value in receiver.items())
    return "" if sends else f"severity=critical goes to {route.receiver!r}, which has no integration"
