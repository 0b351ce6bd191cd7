"""Images of GPU workloads must be fixed by version or digest."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed

_FLOATING = frozenset({"latest", "nightly", "main", "master", "dev", "edge", "stable"})


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the images of containers that ask for GPUs."""
    for pod in inventory.gpu_pods:
        for container in pod.containers:
            image = container.image
            if not container.gpus or not image or "$" in image or "{{" in image:
                continue
            tag = image.rpartition("/")[2].partition(":")[2]
            place = container.place("image")
            if "@" in image or (tag and tag not in _FLOATING):
                yield passed(place, container.subject)
            else:
                yield failed(
                    place, container.subject, f"{image} has {f'the tag {tag}' if tag else 'no tag, which means latest'}"
                )
