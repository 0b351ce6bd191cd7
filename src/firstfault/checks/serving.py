"""vLLM servers as checks see them: their options, the model's configuration, and the memory of the GPU they get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from firstfault.checks.helm import HelmRelease, helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container, PodView
from firstfault.checks.located import Place
from firstfault.checks.terraform.eks import node_groups
from firstfault.checks.workloads import options_of, runs_vllm
from firstfault.model.vllm_config import tokens_of

__all__ = ["Server", "chart_servers", "servers"]

# Memory of one GPU in GiB by instance family, as the driver reports it.
_MEMORY_GIB = {
    "g4dn": 15.0, "g5": 22.5, "g6": 22.5, "gr6": 22.5, "g6e": 45.0, "p3": 16.0, "p3dn": 32.0, "p4d": 39.5, "p4de": 79.2,
    "p5": 79.6, "p5e": 140.4, "p5en": 140.4, "p6-b200": 179.0,
}  # fmt: skip


class Server(msgspec.Struct, frozen=True, eq=False):
    """One vLLM server.

    Attributes:
        options: Command-line options, names with dashes.
        config: The model's config.json among the inputs, or None.
        memory_gib: Memory of one GPU, where the nodes of the inputs or the Pod's own selector tell; else None.
    """

    pod: PodView
    container: Container
    options: dict[str, str]
    config: dict[str, Any] | None
    memory_gib: float | None

    @property
    def missing(self) -> list[str]:
        """What would have to be among the inputs for the walls to be computed; empty when all is."""
        found = []
        if self.config is None:
            model = self.options.get("model", "")
            found.append(f"config.json of {model or 'the model'} (beside the manifests, in a folder of that name)")
        if self.memory_gib is None:
            label = "node.kubernetes.io/instance-type"
            found.append(f"the GPU (a nodeSelector {label}, or node groups of one known GPU type)")
        return found

    @property
    def place(self) -> Place:
        """Line of the arguments."""
        return self.container.place("args" if "args" in self.container.body else "command")

    def number(self, name: str, default: float) -> float:
        """Return a numeric option; `default` where it is not written or not a number."""
        try:
            return float(self.options[name])
        except (KeyError, ValueError):
            return default

    @property
    def max_model_len(self) -> int | None:
        """`--max-model-len` in tokens (1k is 1,000, 1K is 1,024); None where it is not written."""
        return tokens_of(self.options.get("max-model-len", ""))


def servers(inventory: Inventory) -> list[Server]:
    """Return every vLLM server of the inputs."""
    found: list[Server] = inventory.memo("servers", lambda: list(_servers(inventory)))
    return found


def chart_servers(inventory: Inventory) -> list[HelmRelease]:
    """Return the releases of charts that run vLLM: what their Pods look like is in the chart's templates."""
    return helm_releases(inventory, "vllm-stack", "vllm")


def _servers(inventory: Inventory) -> Iterator[Server]:
    for pod in inventory.pods:
        for container in pod.containers:
            if runs_vllm(container):
                options = options_of(container)
                yield Server(pod, container, options, _config(inventory, options), _memory(inventory, pod))


def _config(inventory: Inventory, options: dict[str, str]) -> dict[str, Any] | None:
    """Return the config.json that belongs to the served model: by its own name, or by the folder it lies in."""
    model = options.get("model", "").rstrip("/")
    name = model.rpartition("/")[2]
    for document in inventory.documents:
        body = document.body
        if "hidden_size" not in body and "text_config" not in body:
            continue
        own = str(body.get("_name_or_path", "")).rstrip("/")
        folder = document.path.rpartition("/")[0]
        if name and (own == model or folder.endswith(name)):
            return dict(body)
    return None


def _memory(inventory: Inventory, pod: PodView) -> float | None:
    types = _instance_types(inventory, pod)
    sizes = {_MEMORY_GIB.get(item.partition(".")[0]) for item in types}
    return sizes.pop() if len(sizes) == 1 else None


def _instance_types(inventory: Inventory, pod: PodView) -> set[str]:
    selector = pod.get("nodeSelector")
    if isinstance(selector, dict) and "node.kubernetes.io/instance-type" in selector:
        return {str(selector["node.kubernetes.io/instance-type"])}
    types = {
        item
        for group in node_groups(inventory)
        if group.is_gpu and isinstance(group.instance_types, list)
        for item in group.instance_types
    }
    for pool in inventory.objects("NodePool", "karpenter.sh"):
        requirements = pool.get("spec", "template", "spec", "requirements")
        for item in requirements if isinstance(requirements, list) else []:
            if isinstance(item, dict) and item.get("key") == "node.kubernetes.io/instance-type":
                values = item.get("values")
                types |= {str(value) for value in (values if isinstance(values, list) else [])}
    return types
