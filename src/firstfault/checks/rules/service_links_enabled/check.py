"""A vLLM Pod must not get the variables of Services, which collide with its own."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import SetYaml
from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import PodView
from firstfault.checks.located import ABSENT
from firstfault.checks.outcome import Outcome, failed, passed


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every Pod that runs vLLM."""
    for pod in inventory.pods:
        if not _runs_vllm(pod):
            continue
        value = pod.get("enableServiceLinks")
        place = pod.place("enableServiceLinks")
        if value is False:
            yield passed(place, pod.subject)
        else:
            how = "is not set (default: true)" if value is ABSENT else f"is {value!r}"
            edit = SetYaml(
                path=pod.owner.path,
                line=pod.owner.place().line,
                steps=(*pod.steps, "enableServiceLinks"),
                value=False,
            )
            message = f"enableServiceLinks {how}; a Service called vllm would set VLLM_PORT in this Pod"
            yield failed(place, pod.subject, message, edits=[edit])


def _runs_vllm(pod: PodView) -> bool:
    return any(
        "vllm" in container.image.rpartition("/")[2] or any(word.startswith("vllm") for word in container.words)
        for container in pod.containers
    )
