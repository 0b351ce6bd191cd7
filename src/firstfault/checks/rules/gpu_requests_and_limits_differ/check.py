"""GPU quantities that the API server refuses."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container
from firstfault.checks.located import ABSENT, dig
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.quantity import parse_quantity

_PREFIX = "nvidia.com/"


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every container that writes a resource of NVIDIA."""
    for pod in inventory.pods:
        for container in [*pod.containers, *pod.init_containers]:
            names = sorted(
                {
                    str(name)
                    for kind in ("limits", "requests")
                    for name in _keys(dig(container.body, "resources", kind))
                    if str(name).startswith(_PREFIX)
                }
            )
            for name in names:
                yield _judge(container, name)


def _keys(value: object) -> list[object]:
    return list(value) if isinstance(value, dict) else []


def _judge(container: Container, name: str) -> Outcome:
    limit, request = container.resource(name), container.resource(name, "requests")
    where = "limits" if limit is not ABSENT else "requests"
    place, subject = container.place("resources", where, name), f"{container.subject}/{name}"
    if limit is ABSENT:
        return failed(place, subject, f"{name} is requested without a limit")
    if request is not ABSENT and str(request) != str(limit):
        return failed(place, subject, f"{name}: the request is {request}, the limit {limit}")
    number = parse_quantity(limit)
    if number is None or number != int(number):
        return failed(place, subject, f"{name}: {limit} is no whole number")
    return passed(place, subject)
