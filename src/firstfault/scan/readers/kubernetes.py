"""Kubernetes objects, of JSON or YAML, as facts: what failed, what is missing, what is set.

The table at the end of the module says which function prints which kind. Every object also gets its conditions
printed; kinds that nobody knows get their phase. Secrets and ConfigMaps are never printed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.scan.readers import kubernetes_network as network
from firstfault.scan.readers.base import RawLine
from firstfault.scan.readers.facts import Context, mapping, mappings, one_of, subject_of, text_of
from firstfault.scan.readers.monitoring import OPERATOR_PARTS, monitoring_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from firstfault.model import TextLine

__all__ = ["infer_kind", "is_kubernetes_object", "object_facts"]

GPU = "nvidia.com/gpu"
ENV_PREFIXES = (
    "NCCL_", "FI_", "TORCH_", "MASTER_", "VLLM_", "GLOO_", "UCX_", "CUDA_", "NVIDIA_", "PET_", "TP_SOCKET_",
    "DCGM_EXPORTER_",
)  # fmt: skip
ENV_NAMES = frozenset({"WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "LOCAL_WORLD_SIZE"})
RESOURCE_PREFIXES = ("nvidia.com/", "vpc.amazonaws.com/efa", "amd.com/", "aws.amazon.com/", "rdma/")
RESOURCE_NAMES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
SILENT_KINDS = frozenset({"Secret", "ConfigMap", "Lease"})
MAX_LIST_DEPTH = 3


def is_kubernetes_object(value: Any) -> bool:
    """Say whether a decoded value is an object of Kubernetes, whole or recognisable by its fields."""
    return isinstance(value, dict) and infer_kind(value) != ""


def infer_kind(value: dict[str, Any]) -> str:
    """Return the kind of an object; told from its fields where exports leave it out ("" if nothing tells)."""
    kind = value.get("kind")
    if isinstance(kind, str) and kind and ("apiVersion" in value or "metadata" in value or "items" in value):
        return kind
    return next((kind for kind, tells in _TELLS if tells(value)), "")


def _has(*keys: str) -> Callable[[dict[str, Any]], bool]:
    """Return a test for any of some paths such as `status.nodeInfo`."""

    def tells(value: dict[str, Any]) -> bool:
        return any(key.rpartition(".")[2] in mapping(value, *key.split(".")[:-1]) for key in keys)

    return tells


# How objects without their kind are told, the most telling field first.
_TELLS: tuple[tuple[str, Callable[[dict[str, Any]], bool]], ...] = (
    ("Event", _has("involvedObject", "regarding")),
    ("Node", _has("status.nodeInfo", "status.allocatable")),
    ("Pod", _has("status.containerStatuses", "status.initContainerStatuses", "status.qosClass", "spec.containers")),
    ("PodStatus", _has("containerStatuses")),
    ("PodStatus", lambda value: "phase" in value and "conditions" in value),
    ("Object", lambda value: "metadata" in value and bool(mappings(mapping(value, "status").get("conditions")))),
)


def object_facts(value: dict[str, Any], context: Context, depth: int = 0) -> Iterator[TextLine]:
    """Yield the facts of an object, or of the members of a list of objects."""
    kind = infer_kind(value)
    members = value.get("items")
    if kind.endswith("List") and isinstance(members, list):
        for member in mappings(members) if depth < MAX_LIST_DEPTH else ():
            named = member if "kind" in member else {"kind": kind.removesuffix("List"), "apiVersion": "", **member}
            yield from object_facts(named, context, depth + 1)
        return
    if kind == "PodStatus":
        kind, value = "Pod", {"status": value, "metadata": {}}
    if kind in SILENT_KINDS:
        return
    yield from _PRINTERS.get(kind, _other)(value, context)
    if kind != "Event":
        yield from _conditions(kind, value, context)


def _name(value: dict[str, Any]) -> str:
    """Return `namespace/name`, or the name alone for what has no namespace."""
    metadata = mapping(value, "metadata")
    namespace, name = text_of(metadata.get("namespace")), text_of(metadata.get("name")) or "-"
    return f"{namespace}/{name}" if namespace else name


def _in_namespace(value: dict[str, Any]) -> str:
    """Return `namespace/name` of what always has a namespace; "-" if the export left it out."""
    name = _name(value)
    return name if "/" in name else f"-/{name}"


def _conditions(kind: str, value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    name = _in_namespace(value) if kind in {"Pod", "Job", "Deployment"} else _name(value)
    for condition in mappings(mapping(value, "status").get("conditions")):
        reason = text_of(condition.get("reason"))
        head = (
            f"condition {kind.lower()}/{name} {text_of(condition.get('type'))}={text_of(condition.get('status'))}"
            f" reason={reason} message="
        )
        needle = text_of(condition.get("message"))[:60] or reason or f'"{text_of(condition.get("type"))}"'
        time = one_of(condition, "lastTransitionTime", "lastProbeTime")
        yield from context.print(head, condition.get("message"), needle=needle, time=time)


def _event(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    subject = mapping(value, "involvedObject") or mapping(value, "regarding")
    namespace = text_of(subject.get("namespace") or mapping(value, "metadata").get("namespace")) or "-"
    if subject.get("kind") == "Node":
        namespace = "-"
    head = (
        f"event {text_of(value.get('type')) or 'Normal'} {text_of(value.get('reason'))} "
        f"{text_of(subject.get('kind'))}/{namespace}/{text_of(subject.get('name'))}: "
    )
    # The first time counts: a fault begins when it was first seen, however often it was repeated.
    time = one_of(value, "firstTimestamp", "eventTime", "deprecatedFirstTimestamp", "lastTimestamp")
    if time is None:
        time = mapping(value, "metadata").get("creationTimestamp")
    yield from context.print(head, one_of(value, "message", "note"), time=time, stream=subject_of(head))


def _pod(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    name, status = _in_namespace(value), mapping(value, "status")
    if status:
        head = f"pod {name} phase={text_of(status.get('phase'))} reason={text_of(status.get('reason'))} message="
        yield from context.print(
            head,
            status.get("message"),
            needle=text_of(status.get("message"))[:60] or '"phase"',
            time=status.get("startTime"),
        )
    for key in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for container in mappings(status.get(key)):
            yield from _container(name, container, context)
    yield from _pod_spec(name, mapping(value, "spec"), context)


def _container(pod: str, container: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Print the current and the last state of a container."""
    states = mapping(container, "state"), mapping(container, "lastState")
    found: list[tuple[str, dict[str, Any]]] = [
        (key, mapping(states[0], key)) for key in ("waiting", "running", "terminated") if key in states[0]
    ]
    if "terminated" in states[1]:
        found.append(("last-terminated", mapping(states[1], "terminated")))
    for state, detail in found:
        head = (
            f"container {pod}/{text_of(container.get('name'))} {state} reason={text_of(detail.get('reason'))} "
            f"exitCode={text_of(detail.get('exitCode'))} signal={text_of(detail.get('signal'))} "
            f"restarts={text_of(container.get('restartCount'))} message="
        )
        needle = text_of(one_of(detail, "message", "reason"))[:60].splitlines()
        time = one_of(detail, "finishedAt", "startedAt")
        yield from context.print(head, detail.get("message"), needle=needle[0] if needle else "", time=time, stream=pod)


def _pod_spec(name: str, spec: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Print what a Pod asks for and what of its settings decides about networks, shared memory and GPUs."""
    containers = [*mappings(spec.get("initContainers")), *mappings(spec.get("containers"))]
    if not containers:
        return
    memory = [
        text_of(volume["emptyDir"].get("sizeLimit")) or "unlimited"
        for volume in mappings(spec.get("volumes"))
        if mapping(volume, "emptyDir").get("medium") == "Memory"
    ]
    totals: dict[str, int] = {}
    for container in containers:
        for key, amount in mapping(container, "resources", "limits").items():
            if key.startswith(RESOURCE_PREFIXES) and text_of(amount).isdecimal() and len(text_of(amount)) < 10:
                totals[key] = totals.get(key, 0) + int(amount)
    yield from context.print(
        f"pod-spec {name} node={text_of(spec.get('nodeName')) or 'none'} "
        f"hostNetwork={text_of(bool(spec.get('hostNetwork')))} "
        f"enableServiceLinks={text_of(spec.get('enableServiceLinks') is not False)} "
        f"shm={','.join(memory) or 'default'}" + "".join(f" {key}={amount}" for key, amount in sorted(totals.items())),
        needle='"spec"',
    )
    for container in containers:
        for variable in mappings(container.get("env")):
            key = text_of(variable.get("name"))
            if (key.startswith(ENV_PREFIXES) or key in ENV_NAMES) and "value" in variable:
                head = f"env {name}/{text_of(container.get('name'))} {key}={text_of(variable['value'])}"
                yield from context.print(head, needle=f'"{key}"')


def _node(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    name = _name(value)
    status, spec, labels = mapping(value, "status"), mapping(value, "spec"), mapping(value, "metadata", "labels")
    allocatable, capacity = mapping(status, "allocatable"), mapping(status, "capacity")
    if allocatable or capacity:
        yield from context.print(
            f"node {name} allocatable {GPU}={_amount(allocatable, GPU)} capacity {GPU}={_amount(capacity, GPU)} "
            f"gpu.present={text_of(labels.get('nvidia.com/gpu.present')) or 'unset'}",
            needle='"allocatable"',
        )
    for key in sorted({*allocatable, *capacity}):
        if key != GPU and (key in RESOURCE_NAMES or key.startswith(RESOURCE_PREFIXES)):
            yield from context.print(
                f"node {name} resource {key} allocatable={_amount(allocatable, key)} capacity={_amount(capacity, key)}",
                needle=f'"{key}"',
            )
    info = mapping(status, "nodeInfo")
    if info:
        yield from context.print(
            f"node {name} kubelet={text_of(info.get('kubeletVersion'))} "
            f"runtime={text_of(info.get('containerRuntimeVersion'))} kernel={text_of(info.get('kernelVersion'))} "
            f"os={text_of(info.get('osImage')).replace(' ', '-')} "
            f"instance={text_of(labels.get('node.kubernetes.io/instance-type')) or 'unknown'} "
            f"zone={text_of(labels.get('topology.kubernetes.io/zone')) or 'unknown'}",
            needle='"nodeInfo"',
        )
    if spec.get("unschedulable"):
        yield from context.print(f"node {name} unschedulable=true", needle='"unschedulable"')
    for taint in mappings(spec.get("taints")):
        key = text_of(taint.get("key"))
        yield from context.print(
            f"taint node/{name} {key}={text_of(taint.get('value'))}:{text_of(taint.get('effect'))}",
            needle=f'"{key}"',
            time=taint.get("timeAdded"),
        )


def _amount(resources: dict[str, Any], key: str) -> str:
    return text_of(resources.get(key)) or "none"


def _workload(kind: str, **columns: str) -> Callable[[dict[str, Any], Context], Iterator[TextLine]]:
    """Return a printer for kinds whose state is a few numbers: `column=field of spec or status`."""

    def printer(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
        fields = {**mapping(value, "spec"), **mapping(value, "status")}
        numbers = " ".join(f"{column}={text_of(fields.get(field)) or '0'}" for column, field in columns.items())
        yield from context.print(f"{kind} {_in_namespace(value)} {numbers}", needle='"status"')

    return printer


def _cluster_policy(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    spec = mapping(value, "spec")

    def enabled(part: str) -> str:
        return text_of(mapping(spec, part).get("enabled") is not False)

    yield from context.print(
        f"clusterpolicy {_name(value)} state={text_of(mapping(value, 'status').get('state')) or 'unknown'} "
        f"devicePlugin.enabled={enabled('devicePlugin')} driver.enabled={enabled('driver')} "
        f"toolkit.enabled={enabled('toolkit')}",
        needle='"devicePlugin"',
    )
    if enabled("dcgmExporter") == "false":
        yield from context.print("values dcgmExporter.enabled=false", needle='"dcgmExporter"')


def _quota(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    status = mapping(value, "status")
    hard, used = mapping(status, "hard"), mapping(status, "used")
    for key in hard:
        yield from context.print(
            f"resourcequota {_in_namespace(value)} {key} used={_amount(used, key)} hard={_amount(hard, key)}",
            needle=f'"{key}"',
        )


def _helm(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Print which parts of the GPU Operator the values of a release switch off."""
    spec = mapping(value, "spec")
    source = mapping(mapping(spec, "source"), "helm")
    for values in (mapping(spec, "values"), mapping(source, "valuesObject")):
        for part in OPERATOR_PARTS:
            if mapping(values, part).get("enabled") is False:
                yield from context.print(f"values {part}.enabled=false", needle=f'"{part}"')
    for text in (spec.get("valuesContent"), spec.get("valuesTemplate"), source.get("values")):
        lines = enumerate(text_of(text).encode().split(b"\n"))
        for fact in monitoring_facts(RawLine(number, 0, line) for number, line in lines):
            if fact.text.startswith("values "):
                yield from context.print(fact.text, needle=fact.text.split()[1].split(".")[0])
    yield from _other(value, context)


def _other(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Print the phase or state of a kind that has no printer of its own."""
    status = mapping(value, "status")
    phase = text_of(one_of(status, "phase", "state"))
    if phase:
        head = (
            f"{infer_kind(value).lower()} {_name(value)} phase={phase} reason={text_of(status.get('reason'))} message="
        )
        yield from context.print(head, status.get("message"), needle=text_of(status.get("message"))[:60] or '"phase"')


def _api_status(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Print what the API server answered instead of an object: `kubectl create -o json`, `-v=8`, `--raw`, curl."""
    head = f"api-status {text_of(value.get('status'))} reason={text_of(value.get('reason'))} "
    code = text_of(value.get("code"))
    yield from context.print(f"{head}code={code} message=", value.get("message"), needle='"message"')


_DEPLOYMENT = {"replicas": "replicas", "ready": "readyReplicas", "available": "availableReplicas"}


def _cron_job(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    spec, status = mapping(value, "spec"), mapping(value, "status")
    schedule = text_of(spec.get("schedule")).replace(" ", ",")
    yield from context.print(
        f"cronjob {_in_namespace(value)} schedule={schedule} suspend={text_of(bool(spec.get('suspend')))} "
        f"last={text_of(status.get('lastSuccessfulTime') or status.get('lastScheduleTime')) or 'never'}",
        needle='"schedule"',
    )


_PRINTERS: dict[str, Callable[[dict[str, Any], Context], Iterator[TextLine]]] = {
    "Event": _event,
    "Status": _api_status,
    "Pod": _pod,
    "Node": _node,
    "ClusterPolicy": _cluster_policy,
    "ResourceQuota": _quota,
    "CronJob": _cron_job,
    "HelmRelease": _helm,
    "HelmChart": _helm,
    "HelmChartProxy": _helm,
    "Application": _helm,
    "Service": network.service,
    "EndpointSlice": network.endpoint_slice,
    "Endpoints": network.endpoints,
    "NetworkPolicy": network.network_policy,
    "Job": _workload("job", active="active", succeeded="succeeded", failed="failed", backoffLimit="backoffLimit"),
    "DaemonSet": _workload(
        "daemonset",
        desired="desiredNumberScheduled",
        current="currentNumberScheduled",
        ready="numberReady",
        available="numberAvailable",
        misscheduled="numberMisscheduled",
    ),
    "Deployment": _workload("deployment", **_DEPLOYMENT),
    "StatefulSet": _workload("statefulset", **_DEPLOYMENT),
    "ReplicaSet": _workload("replicaset", **_DEPLOYMENT),
}
