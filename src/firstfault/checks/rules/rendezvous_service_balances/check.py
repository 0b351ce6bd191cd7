"""The address at which ranks meet must be that of one Pod."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import SetYaml
from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.rendezvous import Meeting, meetings


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge each Service of the inputs at which ranks meet."""
    for meeting in meetings(inventory):
        if meeting.service is not None and meeting.members:
            yield _judge(meeting, meeting.service)


def _judge(meeting: Meeting, service: KubeObject) -> Outcome:
    place = service.place("spec", "clusterIP")
    if service.get("spec", "clusterIP") == "None":
        return passed(place, service.subject)
    edit = SetYaml(path=service.path, line=service.place().line, steps=("spec", "clusterIP"), value="None")
    if meeting.pod_name:
        message = f"{meeting.host} names a Pod, which only a headless Service can"
        return failed(place, service.subject, message, edits=[edit])
    if meeting.ranks > 1:
        message = f"{meeting.host} is spread over {meeting.ranks} ranks, and only one of them is the master"
        return failed(place, service.subject, message, edits=[edit])
    return passed(place, service.subject)
