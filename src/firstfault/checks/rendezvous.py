"""Where the ranks of a job meet: the host that they are told, and the Service behind that name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container, KubeObject, PodView
from firstfault.checks.workloads import container_env, distributed_pods, gpu_containers, options_of

__all__ = ["Meeting", "meetings", "selected_pods"]

_OPTIONS = ("rdzv-endpoint", "master-addr", "main-process-ip")
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_INDEX = re.compile(
    r"batch\.kubernetes\.io/job-completion-index|apps\.kubernetes\.io/pod-index|statefulset\.kubernetes\.io/pod-name"
    r"|training\.kubeflow\.org/replica-index|leaderworkerset\.sigs\.k8s\.io/worker-index"
)


class Meeting(msgspec.Struct, frozen=True, eq=False):
    """One address at which ranks meet.

    Attributes:
        pod: The Pods that are told to.
        host: The name, as written.
        pod_name: The name is that of a single Pod (`train-0.train`).
        service: The Service of that name in the Pods' namespace; None when it is not among the inputs.
        members: The Pod templates of the inputs that it selects.
        ranks: How many ranks it selects, as far as the manifests tell; 1 when an index is part of the selector.
    """

    pod: PodView
    host: str
    pod_name: bool
    service: KubeObject | None
    members: list[PodView]
    ranks: int


def meetings(inventory: Inventory) -> list[Meeting]:
    """Return the addresses at which the distributed GPU Pods of the inputs meet."""
    found: list[Meeting] = inventory.memo("meetings", lambda: list(_meetings(inventory)))
    return found


def _meetings(inventory: Inventory) -> Iterator[Meeting]:
    services = {(item.namespace, item.name): item for item in inventory.objects("Service", "")}
    for pod in distributed_pods(inventory):
        for host in sorted({name for item in gpu_containers(pod) for name in _hosts(inventory, item)}):
            labels = host.removesuffix(".").split(".")
            first = (pod.owner.namespace, labels[0])
            second = (pod.owner.namespace, labels[1] if len(labels) > 1 else "")
            # POD.SERVICE, or SERVICE.NAMESPACE: the Service that exists decides.
            by_pod = first not in services and second in services
            service = services.get(second if by_pod else first)
            members = [] if service is None else selected_pods(inventory, service)
            ranks: int = inventory.memo(f"ranks {id(members)}", partial(_ranks, service, members)) if members else 0
            yield Meeting(pod, host, by_pod, service, members, ranks)


def _hosts(inventory: Inventory, container: Container) -> Iterator[str]:
    value = container_env(inventory, container, "MASTER_ADDR")
    options = options_of(container.words)
    for text in (value, *(options.get(name) for name in _OPTIONS)):
        host = str(text).rpartition(":")[0] or str(text) if isinstance(text, str) else ""
        if _HOST.fullmatch(host) and not re.fullmatch(r"[\d.]+|localhost", host):
            yield host


def selected_pods(inventory: Inventory, service: KubeObject) -> list[PodView]:
    """Return the Pods and Pod templates of the inputs that a Service selects; none where it has no selector."""
    selector = service.get("spec", "selector")
    if not isinstance(selector, dict) or not selector:
        return []
    pairs = sorted((str(key), str(value)) for key, value in selector.items())
    # Many Services of a large tree have the same selector.
    found: list[PodView] = inventory.memo(
        f"selected_pods {service.namespace} {pairs}",
        lambda: list(_selected(inventory, service.namespace, dict(pairs))),
    )
    return found


def _selected(inventory: Inventory, namespace: str, selector: dict[str, str]) -> Iterator[PodView]:
    index: dict[tuple[str, str, str], list[PodView]] = inventory.memo("pods_by_label", lambda: _by_label(inventory))
    # Any pair narrows the search; those that controllers add by index are not written anywhere.
    first = next(((key, value) for key, value in selector.items() if not _INDEX.fullmatch(key)), None)
    if first is not None:
        for pod in (*index.get((namespace, *first), []), *index.get((namespace, "", ""), [])):
            if _selects(selector, pod):
                yield pod


def _by_label(inventory: Inventory) -> dict[tuple[str, str, str], list[PodView]]:
    """Index Pods by (namespace, label, value); ("", "") holds those to which a controller adds labels unknown to us."""
    index: dict[tuple[str, str, str], list[PodView]] = {}
    for pod in inventory.pods:
        if _is_known(pod):
            for key, value in _labels(pod).items():
                index.setdefault((pod.owner.namespace, str(key), str(value)), []).append(pod)
        else:
            index.setdefault((pod.owner.namespace, "", ""), []).append(pod)
    return index


def _is_known(pod: PodView) -> bool:
    return pod.owner.group in {"", "apps", "batch"}


def _labels(pod: PodView) -> dict[Any, Any]:
    labels: dict[Any, Any] = dict(pod.labels)
    if pod.owner.kind == "Job":
        # The Job controller labels its Pods itself.
        labels.update(dict.fromkeys(("job-name", "batch.kubernetes.io/job-name"), pod.owner.name))
    return labels


def _selects(selector: dict[Any, Any], pod: PodView) -> bool:
    labels = _labels(pod)
    known = _is_known(pod)
    return all(
        str(labels.get(key, value if not known else None)) == str(value) or bool(known and _INDEX.fullmatch(str(key)))
        for key, value in selector.items()
    )


def _ranks(service: KubeObject | None, members: list[PodView]) -> int:
    if service is None:
        return 0
    if any(_INDEX.fullmatch(str(key)) for key in service.get("spec", "selector") or ()):
        return 1
    counts = [pod.owner.get("spec", name) for pod in members for name in ("completions", "parallelism", "replicas")]
    return max([len(members), *(value for value in counts if isinstance(value, int))])
