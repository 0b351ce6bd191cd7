"""vLLM servers as checks see them: their options, the model's configuration, and the memory of the GPU they get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from firstfault.checks.helm import HelmRelease, helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Place
from firstfault.checks.serving_charts import ALLOW_LONG, INSTANCE_TYPE, chart_specs
from firstfault.checks.terraform.eks import node_groups
from firstfault.checks.workloads import options_of, runs_vllm
from firstfault.model.vllm_config import tokens_of

__all__ = ["Server", "chart_servers", "servers", "unread_charts"]

_MULTI_NODE = frozenset({"LeaderWorkerSet", "RayCluster", "RayService", "RayJob"})

# Memory of one GPU in GiB by instance family, as the driver reports it.
_MEMORY_GIB = {
    "g4dn": 15.0, "g5": 22.5, "g6": 22.5, "gr6": 22.5, "g6e": 45.0, "p3": 16.0, "p3dn": 32.0, "p4d": 39.5, "p4de": 79.2,
    "p5": 79.6, "p5e": 140.4, "p5en": 140.4, "p6-b200": 179.0,
}  # fmt: skip


class Server(msgspec.Struct, frozen=True, eq=False):
    """One vLLM server, of a manifest or of a chart's values.

    Attributes:
        subject: For findings.
        place: Line of the arguments, or of the values that become arguments.
        options: Command-line options, names with dashes.
        gpus: GPUs that one of its Pods asks for; 0 when none or not known.
        several_pods: Its processes may be spread over Pods.
        allows_long: VLLM_ALLOW_LONG_MAX_MODEL_LEN is set.
        config: The model's config.json among the inputs, or None.
        memory_gib: Memory of one GPU, where the nodes of the inputs or the Pod's own selector tell; else None.
    """

    subject: str
    place: Place
    options: dict[str, str]
    gpus: int
    several_pods: bool
    allows_long: bool
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
            found.append(f"the GPU (a nodeSelector {INSTANCE_TYPE}, or node groups of one known GPU type)")
        return found

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


def unread_charts(inventory: Inventory) -> list[HelmRelease]:
    """Return those of them whose values do not say what vLLM is told: some are not known, or the chart is another."""
    return [release for release in chart_servers(inventory) if chart_specs(release) is None]


def _servers(inventory: Inventory) -> Iterator[Server]:
    for pod in inventory.pods:
        for container in pod.containers:
            if runs_vllm(container):
                selector = pod.get("nodeSelector")
                own = selector.get(INSTANCE_TYPE) if isinstance(selector, dict) else None
                options = options_of(container.words)
                yield Server(
                    subject=container.subject,
                    place=container.place("args" if "args" in container.body else "command"),
                    options=options,
                    gpus=container.gpus,
                    several_pods=pod.owner.kind in _MULTI_NODE,
                    allows_long=ALLOW_LONG in str(container.body.get("env")),
                    config=_config(inventory, options),
                    memory_gib=_memory(inventory, set() if own is None else {str(own)}),
                )
    for release in chart_servers(inventory):
        for spec in chart_specs(release) or []:
            yield Server(
                subject=spec.subject,
                place=spec.place,
                options=spec.options,
                gpus=spec.gpus,
                several_pods=spec.several_pods,
                allows_long=spec.allows_long,
                config=_config(inventory, spec.options),
                memory_gib=_memory(inventory, spec.instance_types) if spec.whole_gpus else None,
            )


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


def _memory(inventory: Inventory, own: set[str]) -> float | None:
    """Return the memory of one GPU, of the instance types that a Pod asks for, else of all that there are."""
    types = own or _instance_types(inventory)
    sizes = {_MEMORY_GIB.get(item.partition(".")[0]) for item in types}
    return sizes.pop() if len(sizes) == 1 else None


def _instance_types(inventory: Inventory) -> set[str]:
    types = {
        item
        for group in node_groups(inventory)
        if group.is_gpu and isinstance(group.instance_types, list)
        for item in group.instance_types
    }
    for pool in inventory.objects("NodePool", "karpenter.sh"):
        requirements = pool.get("spec", "template", "spec", "requirements")
        for item in requirements if isinstance(requirements, list) else []:
            if isinstance(item, dict) and item.get("key") == INSTANCE_TYPE:
                values = item.get("values")
                types |= {str(value) for value in (values if isinstance(values, list) else [])}
    return types
