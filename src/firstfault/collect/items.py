"""What evidence is worth having from a cluster, as data: the file, why, the API call and the kubectl command for it.

Live triage and `firstfault collect` share this list, so a bundle has one layout however it was made.
"""

from __future__ import annotations

import msgspec

__all__ = ["ITEMS", "Item"]


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One list of Kubernetes objects.

    Attributes:
        file: Name in the bundle.
        why: What it decides, for the person who grants the right to read it.
        api: Path of the collection; `{namespace}` is filled in.
        kubectl: Arguments of `kubectl get`; `{namespace}` is filled in.
        rbac: (API group, resource) that must be readable.
        by_selector: Whether the label selector of the call applies.
        optional: A cluster without this kind (404) lacks nothing.
    """

    file: str
    why: str
    api: str
    kubectl: tuple[str, ...]
    rbac: tuple[str, str]
    by_selector: bool = False
    optional: bool = False


ITEMS = (
    Item(
        file="pods.json",
        why="phase, restarts, exit codes and environment of the ranks",
        api="/api/v1/namespaces/{namespace}/pods",
        kubectl=("pods", "-n", "{namespace}"),
        rbac=("", "pods"),
        by_selector=True,
    ),
    Item(
        file="events.json",
        why="scheduling, image, probe and eviction messages",
        api="/api/v1/namespaces/{namespace}/events",
        kubectl=("events", "-n", "{namespace}"),
        rbac=("", "events"),
    ),
    Item(
        file="nodes.json",
        why="allocatable GPUs, conditions and taints",
        api="/api/v1/nodes",
        kubectl=("nodes",),
        rbac=("", "nodes"),
    ),
    Item(
        file="services.json",
        why="is there a headless Service for the master, and does it publish Pods that are not ready",
        api="/api/v1/namespaces/{namespace}/services",
        kubectl=("services", "-n", "{namespace}"),
        rbac=("", "services"),
    ),
    Item(
        file="endpointslices.json",
        why="does the Service have endpoints",
        api="/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        kubectl=("endpointslices.discovery.k8s.io", "-n", "{namespace}"),
        rbac=("discovery.k8s.io", "endpointslices"),
    ),
    Item(
        file="networkpolicies.json",
        why="could a NetworkPolicy cut the ranks off",
        api="/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
        kubectl=("networkpolicies.networking.k8s.io", "-n", "{namespace}"),
        rbac=("networking.k8s.io", "networkpolicies"),
    ),
    Item(
        file="jobs.json",
        why="back-off limit and deadline of the Job",
        api="/apis/batch/v1/namespaces/{namespace}/jobs",
        kubectl=("jobs.batch", "-n", "{namespace}"),
        rbac=("batch", "jobs"),
    ),
    Item(
        file="daemonsets.json",
        why="device plugin, driver and CNI: desired against ready",
        api="/apis/apps/v1/daemonsets",
        kubectl=("daemonsets.apps", "-A"),
        rbac=("apps", "daemonsets"),
    ),
    Item(
        file="clusterpolicies.json",
        why="what the GPU Operator was told to run (its state stays `ready` even with the plugin off)",
        api="/apis/nvidia.com/v1/clusterpolicies",
        kubectl=("clusterpolicies.nvidia.com",),
        rbac=("nvidia.com", "clusterpolicies"),
        optional=True,
    ),
)
