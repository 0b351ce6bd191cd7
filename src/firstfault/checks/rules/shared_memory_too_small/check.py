"""Shared memory for containers in which processes exchange data through it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container, PodView
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.quantity import parse_quantity

_LEAST = 256 * 2**20


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge containers with several GPUs."""
    for pod in inventory.gpu_pods:
        if pod.get("hostIPC") is True:
            continue
        for container in pod.containers:
            if container.gpus > 1:
                yield _judge(pod, container)


def _judge(pod: PodView, container: Container) -> Outcome:
    place = container.place("volumeMounts")
    volume = _volume_at_shm(pod, container)
    if volume is None:
        return failed(place, container.subject, "nothing is mounted at /dev/shm: 64 MiB")
    empty = volume.get("emptyDir")
    if not isinstance(empty, dict):
        return passed(place, container.subject)
    if empty.get("medium") != "Memory":
        return failed(place, container.subject, "the volume at /dev/shm is a disk: emptyDir without medium Memory")
    limit = parse_quantity(empty.get("sizeLimit"))
    if limit is not None and limit < _LEAST:
        return failed(place, container.subject, f"the volume at /dev/shm is limited to {empty['sizeLimit']}")
    return passed(place, container.subject)


def _volume_at_shm(pod: PodView, container: Container) -> dict[str, Any] | None:
    mounts, volumes = container.body.get("volumeMounts"), pod.get("volumes")
    for mount in mounts if isinstance(mounts, list) else []:
        if isinstance(mount, dict) and str(mount.get("mountPath", "")).rstrip("/") == "/dev/shm":  # noqa: S108 - a mount path
            for volume in volumes if isinstance(volumes, list) else []:
                if isinstance(volume, dict) and volume.get("name") == mount.get("name"):
                    return volume
    return None
