"""group_wait on the route of critical alerts."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.alerting import GROUP_WAIT_DEFAULT_S, alertmanager_trees, critical_labels
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the routes on which critical alerts end."""
    for tree in alertmanager_trees(inventory):
        ends = [route for labels in critical_labels(inventory) for route in tree.routes(labels)]
        for route in {(item.receiver, item.place): item for item in ends}.values():
            subject = f"{tree.subject}#{route.receiver}"
            if route.group_wait_s > GROUP_WAIT_DEFAULT_S:
                message = f"critical alerts wait {route.group_wait_s:g} s (group_wait) before the first message"
                yield failed(route.place, subject, message)
            else:
                yield passed(route.place, subject)
