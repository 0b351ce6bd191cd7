"""hostNetwork needs dnsPolicy ClusterFirstWithHostNet."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import SetYaml
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import ABSENT
from firstfault.checks.outcome import Outcome, failed, passed


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge GPU Pods on the host network."""
    for pod in inventory.gpu_pods:
        if pod.get("hostNetwork") is not True:
            continue
        policy = pod.get("dnsPolicy")
        place = pod.place("dnsPolicy") if policy is not ABSENT else pod.place("hostNetwork")
        if policy in {"ClusterFirstWithHostNet", "None"}:
            yield passed(place, pod.subject)
        else:
            edit = SetYaml(
                path=pod.owner.path,
                line=pod.owner.place().line,
                steps=(*pod.steps, "dnsPolicy"),
                value="ClusterFirstWithHostNet",
            )
            how = "is not set" if policy is ABSENT else f"is {policy}"
            yield failed(
                place, pod.subject, f"dnsPolicy {how}: the node's resolver does not know Services", edits=[edit]
            )
