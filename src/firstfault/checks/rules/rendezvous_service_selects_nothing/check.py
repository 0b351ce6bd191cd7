"""The Service at which ranks meet must select them."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.rendezvous import meetings


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge each Service of the inputs at which ranks meet."""
    for meeting in meetings(inventory):
        service = meeting.service
        if service is None:
            continue
        selector = service.get("spec", "selector")
        if not isinstance(selector, dict) or not selector:
            continue  # endpoints are kept by somebody else
        place = service.place("spec", "selector")
        if meeting.members:
            yield passed(place, service.subject)
        else:
            words = ", ".join(f"{key}={value}" for key, value in selector.items())
            message = f"ranks of {meeting.pod.subject} meet at {meeting.host}, and {words} selects no Pod of the inputs"
            yield failed(place, service.subject, message)
