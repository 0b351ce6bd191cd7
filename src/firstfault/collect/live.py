"""Gathers the evidence of one job from a live cluster into a folder that triage reads like any other.

Live triage is: gather, triage the folder, delete it. What could not be read becomes a `Missing` entry with the command
that would get it; one unreachable API never stops the others, and never counts as healthy.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from firstfault.collect.cloud import (
    CloudError,
    CloudSnapshot,
    PodPlace,
    branch_eni,
    ec2_place,
    find_interface,
    read_ec2,
)
from firstfault.collect.items import ITEMS, Item
from firstfault.collect.kube import KubeError, KubeReader
from firstfault.collect.names import check_namespace, is_object_name
from firstfault.collect.pool import fetch_all
from firstfault.collect.reachability import parse_network_acl, parse_security_group, reachable
from firstfault.errors import UnsupportedError
from firstfault.model import Missing

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DEFAULT_MASTER_PORT", "MAX_PODS", "containers", "gather_live", "no_pods", "pod_places", "reachability_file"]

DEFAULT_MASTER_PORT = 29500
"""Default of torchrun and of most examples for MASTER_PORT."""

EPHEMERAL_SAMPLE_PORT = 45075
"""Stands for the ports that NCCL and gloo listen on: the kernel picks them from 32768-60999."""

MAX_PODS = 256
TAIL_LINES = 50_000
PARALLEL_CALLS = 8


def gather_live(
    folder: Path,
    *,
    namespace: str | None = None,
    selector: str = "",
    context: str | None = None,
    cloud: bool = True,
) -> list[Missing]:
    """Read Pods, events, nodes, logs (previous too) and security groups into `folder`; return what was not to be had.

    Args:
        folder: Existing empty folder; nothing is written outside it.
        namespace: Of the job; None for the namespace of the context.
        selector: Label selector of its Pods; "" for all Pods of the namespace.
        context: kubeconfig context; None for the current one.
        cloud: Also ask EC2 what the Pods' interfaces obey, when their nodes are EC2 instances.

    Raises:
        UsageError: No cluster has a namespace of that name.
        InputError: No usable cluster configuration, or the Pods themselves cannot be listed.
        UnsupportedError: The extra `live` is not installed.
    """
    check_namespace(namespace, "--namespace")
    with KubeReader(context) as kube:
        namespace = namespace or kube.namespace
        missing: list[Missing] = []
        pods: list[dict[str, Any]] = []
        nodes: list[dict[str, Any]] = []
        for item in ITEMS:
            try:
                objects = list(
                    kube.items(item.api.format(namespace=namespace), labels=selector if item.by_selector else "")
                )
            except KubeError as error:
                if item.file == "pods.json":
                    raise
                if not (item.optional and error.status == 404):
                    missing.append(_missing_item(item, namespace, error))
                continue
            if item.file == "pods.json":
                # The names become paths: an API server that answers others is none.
                pods = objects = [pod for pod in objects if is_object_name(pod["metadata"]["name"])][:MAX_PODS]
            elif item.file == "nodes.json":
                nodes = objects
            if objects:
                _write_json(folder / item.file, {"apiVersion": "v1", "kind": "List", "items": objects})
        missing += _gather_logs(kube, folder, pods)
    if not pods:
        missing.append(no_pods(namespace, selector))
    if cloud:
        missing += _gather_cloud(folder, pods, nodes)
    return missing


def no_pods(namespace: str, selector: str) -> Missing:
    """Say that no Pod is the job's; "" for the namespace of the context, and for all of its Pods."""
    where = (f"namespace {namespace}" if namespace else "the context's namespace") + (
        f", selector {selector}" if selector else ""
    )
    return Missing(
        what="Pods of the job",
        why=f"no Pod matches ({where}); finished Pods may be gone already",
        command=f"kubectl get pods {f'-n {namespace} ' if namespace else ''}--show-labels",
    )


def _write_json(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data, indent=1, default=str) + "\n")


def _missing_item(item: Item, namespace: str, error: KubeError) -> Missing:
    arguments = " ".join(part.format(namespace=namespace) for part in item.kubectl)
    return Missing(
        what=item.file, why=f"{error.what}; needed for: {item.why}", command=f"kubectl get {arguments} -o json"
    )


def containers(pod: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return (container, has a previous instance) for each container that has ever started."""
    status = pod.get("status") or {}
    found = []
    for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for each in status.get(kind) or []:
            state = each.get("state") or {}
            previous = bool(each.get("restartCount")) or bool((each.get("lastState") or {}).get("terminated"))
            if is_object_name(each["name"]) and (previous or "running" in state or "terminated" in state):
                found.append((each["name"], previous))
    return found


def _gather_logs(kube: KubeReader, folder: Path, pods: list[dict[str, Any]]) -> list[Missing]:
    wanted = []
    for pod in pods:
        meta = pod["metadata"]
        for container, restarted in containers(pod):
            wanted += [(meta["namespace"], meta["name"], container, previous) for previous in {False, restarted}]

    def fetch(log: tuple[str, str, str, bool]) -> Missing | None:
        namespace, pod, container, previous = log
        path = folder / "logs" / pod / f"{container}{'.previous' if previous else ''}.log"
        try:
            content = kube.log(namespace, pod, container, previous=previous)
        except KubeError as error:
            flag = " --previous" if previous else ""
            command = f"kubectl logs -n {namespace} {pod} -c {container}{flag} --timestamps"
            return Missing(what=f"log of {pod}/{container}{flag}", why=error.what, command=command)
        path.parent.mkdir(exist_ok=True)  # without parents: a folder that was deleted meanwhile stays so
        path.write_bytes(content)
        return None

    if wanted:
        (folder / "logs").mkdir(exist_ok=True)

    return [problem for problem in fetch_all(fetch, sorted(wanted), threads=PARALLEL_CALLS) if problem]


def pod_places(pods: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> tuple[list[PodPlace], str | None]:
    """Return where the Pods run, and the AWS region of their nodes (None when they are not EC2 instances)."""
    instances, region = {}, None
    for node in nodes:
        place, instance = ec2_place(node)
        if instance:
            instances[node["metadata"]["name"]] = instance
            region = place
    places = [
        PodPlace(
            name=f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
            address=(pod.get("status") or {}).get("podIP", ""),
            node=pod["spec"].get("nodeName", ""),
            instance=instances.get(pod["spec"].get("nodeName", ""), ""),
            branch_eni=branch_eni(pod["metadata"].get("annotations") or {}),
        )
        for pod in pods
    ]
    return places, region


def _master(pods: list[dict[str, Any]]) -> tuple[str | None, int]:
    """Return `namespace/name` of the Pod that MASTER_ADDR means, if any says so, and the master port."""
    port, wanted = DEFAULT_MASTER_PORT, ""
    for pod in pods:
        for container in pod["spec"].get("containers", []):
            for entry in container.get("env") or []:
                if entry.get("name") == "MASTER_PORT" and str(entry.get("value", "")).isdigit():
                    port = int(entry["value"])
                elif entry.get("name") == "MASTER_ADDR":
                    wanted = str(entry.get("value", "")).split(".")[0]
    names = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods]
    for pod, name in zip(pods, names, strict=True):
        addresses = {pod["metadata"]["name"], pod["spec"].get("hostname"), (pod.get("status") or {}).get("podIP")}
        if wanted in addresses:
            return name, port
    # A headless Service is often named like the Pod without its ordinal (nccl-master -> nccl-master-0).
    for name in sorted(names):
        if wanted and name.split("/")[1].startswith(f"{wanted}-"):
            return name, port
    return (min(names) if names else None), port


def _gather_cloud(folder: Path, pods: list[dict[str, Any]], nodes: list[dict[str, Any]]) -> list[Missing]:
    places, region = pod_places(pods, nodes)
    if not any(place.instance for place in places):
        return []
    instances = ",".join(sorted({place.instance for place in places if place.instance}))
    try:
        snapshot = read_ec2(places, region)
    except (CloudError, UnsupportedError) as error:
        command = f"aws ec2 describe-network-interfaces --filters Name=attachment.instance-id,Values={instances}"
        return [Missing(what="security groups of the Pods' interfaces", why=error.what, command=command)]
    _write_json(folder / "security-groups.json", {"SecurityGroups": snapshot.groups})
    _write_json(folder / "network-interfaces.json", {"NetworkInterfaces": snapshot.interfaces})
    _write_json(folder / "network-acls.json", {"NetworkAcls": snapshot.acls})
    reachability_file(folder, snapshot, places, pods)
    return []


def reachability_file(
    folder: Path, snapshot: CloudSnapshot, places: list[PodPlace], pods: list[dict[str, Any]]
) -> None:
    """Write `reachability.txt`: whether each Pod may reach the master's port, and the master the Pod's data port."""
    master, port = _master(pods)
    if lines := reachability_lines(snapshot, places, master, port):
        (folder / "reachability.txt").write_text("".join(f"{line}\n" for line in lines))


def reachability_lines(snapshot: CloudSnapshot, places: list[PodPlace], master: str | None, port: int) -> list[str]:
    """Answer "is the port open between these Pods?" for every Pod towards the master, and back to a data port.

    Returns lines in the grammar of docs/canonical-lines.md. Pods on one node are left out: no security group is
    between them.
    """
    target = next((place for place in places if place.name == master), None)
    if target is None:
        return []
    groups = {group.id: group for group in map(parse_security_group, snapshot.groups)}
    acls = [parse_network_acl(acl) for acl in snapshot.acls]
    lines = []
    for place in places:
        if place.node == target.node:
            continue
        for source, sink, number in ((place, target, port), (target, place, EPHEMERAL_SAMPLE_PORT)):
            ends = find_interface(snapshot, source), find_interface(snapshot, sink)
            if ends[0] is None or ends[1] is None:
                state, by, why = "unknown", "security groups", "no interface of the node holds the Pod's address"
            else:
                answer = reachable(ends[0], ends[1], number, groups=groups, acls=acls)
                state, by, why = answer.state, answer.decided_by or "security groups", answer.why
            lines.append(f"reachability {source.name} -> {sink.name} tcp {number} {state} by={by} ({why})")
    return lines
