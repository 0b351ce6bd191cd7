"""What kind of work a Pod does, and the environment that its containers really get."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container, KubeObject, PodView
from firstfault.checks.located import ABSENT, Unresolved, dig

__all__ = [
    "collective_pods",
    "container_env",
    "distributed_pods",
    "gpu_containers",
    "injected_env",
    "options_of",
    "runs_vllm",
    "smoke_jobs",
    "torch_version",
    "training_pods",
]

_LAUNCHERS = re.compile(
    r"\b(?:torchrun|torch\.distributed|mpirun|deepspeed|horovodrun|accelerate\s+launch|all_?reduce|nccl-tests)\b"
)
_JOB_KINDS = frozenset({"PyTorchJob", "MPIJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "TrainJob", "JobSet"})
_RANK_VARIABLES = ("MASTER_ADDR", "WORLD_SIZE", "NNODES", "NODE_RANK", "PET_NNODES")
_SMOKE = re.compile(r"nccl|all-?_?reduce|smoke|torchrun|firstfault", re.IGNORECASE)
# NVIDIA's containers are named by month; PyTorch's version follows from the release notes of the framework containers.
# 24.11 and 24.12 call themselves 2.6 and were cut before its defaults changed.
_NGC = {
    "24.01": (2, 2), "24.02": (2, 3), "24.03": (2, 3), "24.04": (2, 3), "24.05": (2, 4), "24.06": (2, 4),
    "24.07": (2, 4), "24.08": (2, 5), "24.09": (2, 5), "24.10": (2, 5), "24.11": (2, 5), "24.12": (2, 5),
    "25.01": (2, 6), "25.02": (2, 7), "25.03": (2, 7), "25.04": (2, 7), "25.05": (2, 8), "25.06": (2, 8),
}  # fmt: skip
_NGC_NEWEST = (2, 8)


def gpu_containers(pod: PodView) -> list[Container]:
    """Return the containers that ask for a GPU."""
    return [container for container in pod.containers if container.gpus]


def distributed_pods(inventory: Inventory) -> list[PodView]:
    """Return the GPU Pods that work together with others over the network."""
    found: list[PodView] = inventory.memo(
        "distributed_pods", lambda: [pod for pod in inventory.gpu_pods if _is_distributed(pod)]
    )
    return found


def collective_pods(inventory: Inventory) -> list[PodView]:
    """Return the GPU Pods in which NCCL is used: distributed ones, and those with several GPUs."""
    distributed = {id(pod) for pod in distributed_pods(inventory)}
    return [pod for pod in inventory.gpu_pods if pod.gpus > 1 or id(pod) in distributed]


def training_pods(inventory: Inventory) -> list[PodView]:
    """Return the GPU Pods that run to completion, or that are ranks of a job."""
    distributed = {id(pod) for pod in distributed_pods(inventory)}
    return [
        pod
        for pod in inventory.gpu_pods
        if not any(runs_vllm(container) for container in pod.containers)
        and (id(pod) in distributed or pod.owner.kind in {"Job", "CronJob"})
    ]


def _is_distributed(pod: PodView) -> bool:
    owner = pod.owner
    if owner.kind in _JOB_KINDS or owner.kind in {"LeaderWorkerSet", "RayJob"}:
        return True
    if owner.kind == "Job" and _several(owner, "spec"):
        return True
    if owner.kind == "CronJob" and _several(owner, "spec", "jobTemplate", "spec"):
        return True
    for container in pod.containers:
        if any(container.env(name) is not ABSENT for name in _RANK_VARIABLES):
            return True
        words = " ".join(container.words)
        if _LAUNCHERS.search(words) and not re.search(r"--standalone\b|--nnodes[= ]1\b", words):
            return True
    return False


def _several(owner: KubeObject, *steps: str) -> bool:
    return any(_count(owner.get(*steps, name)) > 1 for name in ("completions", "parallelism"))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def runs_vllm(container: Container) -> bool:
    """Tell whether a container runs the vLLM server."""
    image = container.image.rpartition("/")[2].lower()
    words = " ".join(container.words)
    return "vllm" in image or bool(re.search(r"(?:^|[\s/])vllm\s+serve\b|vllm\.entrypoints", words))


def container_env(inventory: Inventory, container: Container, name: str) -> Any:
    """Return the value of an environment variable: literal, or from a ConfigMap of the inputs.

    Returns:
        The text, ABSENT, or `Unresolved` where it comes from something that is not among the inputs.
    """
    value = container.env(name)
    if isinstance(value, dict):
        reference = value.get("configMapKeyRef")
        if isinstance(reference, dict):
            return _config_value(inventory, container, reference.get("name"), reference.get("key"))
        return Unresolved("it comes from a Secret or a field that only the cluster knows")
    if value is not ABSENT:
        return str(value)
    sources = container.body.get("envFrom")
    for source in sources if isinstance(sources, list) else []:
        prefix = str(dig(source, "prefix") or "")
        reference = dig(source, "configMapRef")
        if isinstance(reference, dict) and name.startswith(prefix):
            found = _config_value(inventory, container, reference.get("name"), name.removeprefix(prefix))
            if found is not ABSENT:
                return found
        elif isinstance(dig(source, "secretRef"), dict):
            return Unresolved("it may come from a Secret")
    return ABSENT


def _config_value(inventory: Inventory, container: Container, name: Any, key: Any) -> Any:
    namespace = container.pod.owner.namespace
    for item in inventory.objects("ConfigMap", ""):
        if item.name == name and item.namespace == namespace:
            value = item.get("data", str(key))
            return value if value is ABSENT else str(value)
    return Unresolved(f"ConfigMap {name} is not among the inputs")


def injected_env(inventory: Inventory) -> set[str]:
    """Return the variables that admission policies of the inputs put into Pods."""
    found: set[str] = inventory.memo("injected_env", lambda: set(_injected(inventory)))
    return found


def _injected(inventory: Inventory) -> Iterator[str]:
    for item in inventory.kube:
        if item.group in {"kyverno.io", "policies.kyverno.io"} or item.kind == "MutatingAdmissionPolicy":
            yield from _names(item.body)


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        name = value.get("name")
        if isinstance(name, str):
            yield name.strip("()+")
        for inner in value.values():
            yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)
    elif isinstance(value, str):
        # CEL expressions and JSON patches: names stand in quotes.
        yield from re.findall(r"""["'](NCCL_\w+|TORCH_\w+|FI_\w+)["']""", value)


def options_of(command: Sequence[str]) -> dict[str, str]:
    """Return the long options of a command line, with dashes ("max-model-len"); a flag's value is empty.

    Words inside `sh -c "…"` count as well.
    """
    words: list[str] = []
    for word in command:
        if re.search(r"\s--?\w", word):
            try:
                words.extend(shlex.split(word))
            except ValueError:
                words.extend(word.split())
        else:
            words.append(word)
    options: dict[str, str] = {}
    for index, word in enumerate(words):
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            following = words[index + 1] if index + 1 < len(words) else ""
            if not equals and not following.startswith("-"):
                value = following
            options[name.replace("_", "-")] = value
        elif word == "serve" and index + 1 < len(words) and not words[index + 1].startswith("-"):
            options.setdefault("model", words[index + 1])
    return options


def torch_version(image: str) -> tuple[int, int] | None:
    """Return (major, minor) of the PyTorch in a well-known image, or None."""
    name, _, tag = image.rpartition("/")[2].partition(":")
    tag = tag.partition("@")[0]
    if image.startswith("nvcr.io/nvidia/pytorch") or (name == "pytorch" and re.match(r"\d\d\.\d\d-py3", tag)):
        month = tag[:5]
        return _NGC.get(month, _NGC_NEWEST if month > max(_NGC) else None)
    match = re.match(r"(\d+)\.(\d+)", tag)
    return (int(match[1]), int(match[2])) if name == "pytorch" and match else None


def torch_version_is_floor(image: str) -> bool:
    """Tell whether the image is newer than our table, so that `torch_version` is only the least that it can be."""
    name, _, tag = image.rpartition("/")[2].partition(":")
    return name == "pytorch" and bool(re.match(r"\d\d\.\d\d-py3", tag)) and tag[:5] > max(_NGC)


def smoke_jobs(inventory: Inventory) -> list[KubeObject]:
    """Return the CronJobs that test collective communication: GPU Pods whose name, image or command says so."""
    found = []
    for pod in inventory.gpu_pods:
        if pod.owner.kind == "CronJob":
            words = " ".join(word for container in pod.containers for word in (container.image, *container.words))
            if _SMOKE.search(f"{pod.owner.name} {words}"):
                found.append(pod.owner)
    return found
