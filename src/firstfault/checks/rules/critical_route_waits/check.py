"""group_wait on the route of critical alerts."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.alerting import GROUP_WAIT_DEFAULT_S, alertmanager_trees
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the route on which an alert with severity=critical ends."""
    for tree in alertmanager_trees(inventory):
        for route in tree.routes({"severity": "critical"}):
            subject = f"{tree.subject}#{route.receiver}"
            if route.group_wait_s > GROUP_WAIT_DEFAULT_S:
                message = f"critical alerts wait {route.group_wait_s:g} s (group_wait) before the first message"
                yield failed(route.place, subject, message)
            else:
                yield passed(route.place, subject)
