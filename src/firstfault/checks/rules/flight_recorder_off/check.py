"""The flight recorder: on, dumping, and onto something that outlives the container."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container, PodView
from firstfault.checks.located import ABSENT, Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.workloads import (
    container_env,
    distributed_pods,
    gpu_containers,
    injected_env,
    runs_vllm,
    torch_version,
    torch_version_is_floor,
)

_BUFFER = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_FILE = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
# The ring's own default was 0 until pull request 172843 of January 2026 made it 2000 (ProcessGroupNCCL had said 2000
# since 2.6, which switched nothing on). 2.10 was out by then, 2.13 has it in its headers; what lies between was not
# looked at.
_OFF_UNTIL, _ON_SINCE, _DUMPS_SINCE = (2, 10), (2, 13), (2, 7)


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
    if size is ABSENT and version is not None and _may_be_on(version, floor=torch_version_is_floor(container.image)):
        yield unknown(
            place,
            container.subject,
            "whether the recorder is on by default depends on the release of PyTorch in this image; "
            "TORCH_NCCL_TRACE_BUFFER_SIZE is not set",
        )
        return
    if size == "0" or (size is ABSENT and version is not None and version <= _OFF_UNTIL):
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


def _may_be_on(version: tuple[int, int], *, floor: bool) -> bool:
    return version < _ON_SINCE and (floor or version > _OFF_UNTIL)


def _first(inventory: Inventory, container: Container, names: tuple[str, ...]) -> object:
    values = [container_env(inventory, container, name) for name in names]
    return next((value for value in values if value is not ABSENT), ABSENT)


def _on_volume(pod: PodView, container: Container, file: str) -> bool:
    mounts = container.body.get("volumeMounts")
    return any(
        isinstance(mount, dict) and file.startswith(f"{str(mount.get('mountPath', '')).rstrip('/')}/")
        for mount in (mounts if isinstance(mounts, list) else [])
    ) and isinstance(pod.get("volumes"), list)
