"""The flight recorder: on, dumping, and onto something that outlives the container."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container, PodView
from firstfault.checks.located import ABSENT, Unresolved
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import (
    container_env,
    distributed_pods,
    gpu_containers,
    injected_env,
    runs_vllm,
    torch_version,
)

_BUFFER = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_FILE = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_ON_SINCE, _DUMPS_SINCE = (2, 6), (2, 7)


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the distributed training containers whose settings or PyTorch version are known."""
    if any(name in injected_env(inventory) for name in _BUFFER):
        return
    for pod in distributed_pods(inventory):
        for container in gpu_containers(pod):
            if not runs_vllm(container):
                yield from _judge(inventory, pod, container)


def _judge(inventory: Inventory, pod: PodView, container: Container) -> Iterator[Outcome]:
    version = torch_version(container.image)
    size = _first(inventory, container, _BUFFER)
    dump = container_env(inventory, container, "TORCH_NCCL_DUMP_ON_TIMEOUT")
    place = container.place("env")
    if isinstance(size, Unresolved) or isinstance(dump, Unresolved) or (size is ABSENT and version is None):
        return
    shown = f"PyTorch {version[0]}.{version[1]}" if version else "this image"
    if size == "0" or (size is ABSENT and version is not None and version < _ON_SINCE):
        yield failed(place, container.subject, f"the recorder is off ({shown}, TORCH_NCCL_TRACE_BUFFER_SIZE not set)")
        return
    if str(dump).lower() in {"0", "false"} or (dump is ABSENT and version is not None and version < _DUMPS_SINCE):
        yield failed(place, container.subject, f"nothing writes the record at a timeout ({shown})")
        return
    file = _first(inventory, container, _FILE)
    if file is ABSENT or (isinstance(file, str) and not _on_volume(pod, container, file)):
        where = "the container's own filesystem" if file is ABSENT else str(file)
        yield failed(place, container.subject, f"the record goes to {where}, which ends with the container")
    else:
        yield passed(place, container.subject)


def _first(inventory: Inventory, container: Container, names: tuple[str, ...]) -> object:
    values = [container_env(inventory, container, name) for name in names]
    return next((value for value in values if value is not ABSENT), ABSENT)


def _on_volume(pod: PodView, container: Container, file: str) -> bool:
    mounts = container.body.get("volumeMounts")
    return any(
        isinstance(mount, dict) and file.startswith(f"{str(mount.get('mountPath', '')).rstrip('/')}/")
        for mount in (mounts if isinstance(mounts, list) else [])
    ) and isinstance(pod.get("volumes"), list)
