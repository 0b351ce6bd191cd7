"""What the values of two charts tell vLLM, where the values alone say it.

vLLM's production-stack (`vllm-stack`) names settings of its own, which its templates write as options of `vllm serve`:
https://github.com/vllm-project/production-stack/blob/main/helm/templates/deployment-vllm-multi.yaml. The chart among
vLLM's examples (`vllm`) holds the whole command.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from firstfault.checks.helm import HelmRelease
from firstfault.checks.located import Place, dig, find_unresolved, place_of
from firstfault.checks.workloads import options_of

__all__ = ["ALLOW_LONG", "INSTANCE_TYPE", "ChartSpec", "chart_specs"]

ALLOW_LONG = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_GPU = "nvidia.com/gpu"
_SETTINGS = {
    "maxModelLen": "max-model-len", "dtype": "dtype", "tensorParallelSize": "tensor-parallel-size",
    "maxNumSeqs": "max-num-seqs", "gpuMemoryUtilization": "gpu-memory-utilization",
}  # fmt: skip


class ChartSpec(msgspec.Struct, frozen=True, eq=False):
    """One vLLM server that a chart would make.

    Attributes:
        subject: For findings.
        place: Lines of the values that become its arguments; of the release where those are not known.
        options: Command-line options, names with dashes.
        gpus: GPUs of one Pod.
        whole_gpus: They are no slices of GPUs.
        several_pods: Its processes may be spread over Pods (Ray).
        allows_long: VLLM_ALLOW_LONG_MAX_MODEL_LEN is set.
        instance_types: What its Pods ask for.
    """

    subject: str
    place: Place
    options: dict[str, str]
    gpus: int
    whole_gpus: bool = True
    several_pods: bool = False
    allows_long: bool = False
    instance_types: set[str] = set()


def chart_specs(release: HelmRelease) -> list[ChartSpec] | None:
    """Return the servers that a release's values describe; None where they do not say.

    Args:
        release: Of the chart `vllm-stack` or `vllm`.
    """
    if release.unknown:
        return None
    if "servingEngineSpec" in release.values or release.chart == "vllm-stack":
        specs = release.value("servingEngineSpec.modelSpec", [])
        listed = isinstance(specs, list) and all(isinstance(each, dict) for each in specs)
        return [_of_stack(release, each) for each in specs] if listed and not any(find_unresolved(specs)) else None
    command = release.value("image.command")
    if not isinstance(command, list) or any(find_unresolved(command)):
        return None
    return [_of_command(release, command)]


def _of_command(release: HelmRelease, command: list[Any]) -> ChartSpec:
    gpus = dig(release.values, "resources", "limits", _GPU)
    return ChartSpec(
        subject=release.subject,
        place=_place(release, release.values.get("image"), "command"),
        options=options_of([str(word) for word in command]),
        gpus=_count(gpus),
    )


def _of_stack(release: HelmRelease, spec: dict[str, Any]) -> ChartSpec:
    settings = dig(spec, "vllmConfig")
    settings = settings if isinstance(settings, dict) else {}
    options = {option: str(settings[key]) for key, option in _SETTINGS.items() if settings.get(key) is not None}
    more = settings.get("extraArgs")
    gpus = spec.get("requestGPU")
    return ChartSpec(
        subject=f"{release.subject}#{spec.get('name', '')}",
        place=_place(release, spec, "vllmConfig" if settings else "modelURL"),
        # What is written last on a command line holds.
        options={"model": str(spec.get("modelURL", ""))}
        | options
        | (options_of([str(word) for word in more]) if isinstance(more, list) else {}),
        gpus=_count(gpus),
        whole_gpus=spec.get("requestGPUType", _GPU) == _GPU and "requestGPUMem" not in spec,
        several_pods="raySpec" in spec,
        allows_long=ALLOW_LONG in str(spec.get("env")),
        instance_types=set(_instance_types(spec)),
    )


def _count(value: Any) -> int:
    return int(value) if str(value).isdecimal() and len(str(value)) < 6 else 0


def _place(release: HelmRelease, body: Any, key: str) -> Place:
    return place_of(release.place.path, body, key) if release.located else release.place


def _instance_types(spec: dict[str, Any]) -> Iterator[str]:
    """Yield the instance types of the node affinity: terms that a node may meet, expressions that it has to."""
    terms = spec.get("nodeSelectorTerms")
    for term in terms if isinstance(terms, list) else []:
        expressions = dig(term, "matchExpressions")
        for each in expressions if isinstance(expressions, list) else []:
            if isinstance(each, dict) and each.get("key") == INSTANCE_TYPE and each.get("operator", "In") == "In":
                values = each.get("values")
                yield from (str(value) for value in (values if isinstance(values, list) else []))
