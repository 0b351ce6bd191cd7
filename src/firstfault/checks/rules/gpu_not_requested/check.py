"""Containers whose program plainly needs a GPU must ask for one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container, PodView
from firstfault.checks.outcome import Outcome, failed, passed

_SERVERS = re.compile(
    r"vllm\s+serve\b|vllm\.entrypoints|sglang\.launch_server|\btrtllm-serve\b|text-generation-launcher"
)
_SERVER_IMAGES = ("vllm-openai", "text-generation-inference", "sglang")
_NCCL = re.compile(r"\ball_reduce_perf\b|--backend[= ]nccl\b")
_NO_GPU = re.compile(r"\bcpu\b|rocm|gaudi|hpu|neuron|tpu|xpu|openvino|\bbench\b|mpirun|mpiexec")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge containers of model servers and of NCCL tests."""
    for pod in inventory.pods:
        if pod.owner.group == "serving.kserve.io":
            continue  # the runtime's template; the InferenceService adds the resources
        for container in pod.containers:
            if _needs_gpu(container):
                if container.gpus or _otherwise(pod, container):
                    yield passed(container.place("resources"), container.subject)
                else:
                    elsewhere = [item.name for item in (*pod.containers, *pod.init_containers) if item.gpus]
                    where = f"; the GPU is asked for by {', '.join(elsewhere)}" if elsewhere else ""
                    yield failed(container.place("resources"), container.subject, f"asks for no GPU{where}")


def _needs_gpu(container: Container) -> bool:
    text = " ".join(container.words)
    image = container.image.rpartition("/")[2].lower()
    if _NO_GPU.search(f"{image} {text}".lower()) or container.env("VLLM_TARGET_DEVICE") == "cpu":
        return False
    name = re.split(r"[:@]", image)[0]
    return bool(_SERVERS.search(text) or _NCCL.search(text)) or (
        name in _SERVER_IMAGES and "command" not in container.body
    )


def _otherwise(pod: PodView, container: Container) -> bool:
    """Tell whether devices come by another way: claims of dynamic allocation, other vendors, an unknown quantity."""
    resources = container.body.get("resources")
    claims = resources.get("claims") if isinstance(resources, dict) else None
    if claims or pod.get("resourceClaims"):
        return True
    limits = resources.get("limits") if isinstance(resources, dict) else None
    names = [str(name) for name in limits] if isinstance(limits, dict) else []
    return any("/" in name and not name.startswith("vpc.amazonaws.com/") for name in names)
