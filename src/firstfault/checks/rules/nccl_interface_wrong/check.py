"""NCCL_SOCKET_IFNAME against the network that the Pod really has."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container, PodView
from firstfault.checks.located import ABSENT, Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.workloads import collective_pods, container_env, gpu_containers

_NAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
# Interfaces of nodes: Amazon Linux and Bottlerocket on Nitro, Ubuntu, InfiniBand hosts.
_NODE_NAMES = ("ens5", "ens32", "enp71s0", "eno1", "ib0", "bond0")
_POD_NAMES = ("eth0", "net1")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the variables of every Pod that uses NCCL."""
    for pod in collective_pods(inventory):
        for container in gpu_containers(pod):
            for name in _NAMES:
                value = container_env(inventory, container, name)
                if value is not ABSENT:
                    yield _judge(pod, container, name, value)


def _judge(pod: PodView, container: Container, name: str, value: object) -> Outcome:
    place, subject = container.place("env"), f"{container.subject}/{name}"
    if isinstance(value, Unresolved):
        return unresolved(place, subject, name, value)
    host = pod.get("hostNetwork") is True
    names = _NODE_NAMES if host else _POD_NAMES
    if _selects(str(value), names, exact_only=name.startswith("GLOO")):
        return passed(place, subject)
    network = "the node's network (hostNetwork)" if host else "the Pod's network"
    return failed(
        place, subject, f"{name}={value}, but in {network} the interface is {'ens5 or the like' if host else 'eth0'}"
    )


def _selects(value: str, names: tuple[str, ...], *, exact_only: bool) -> bool:
    """Tell whether NCCL's syntax selects any of the names: prefixes, `=` for exact names, `^` to exclude."""
    excluded, exact = value.startswith("^"), exact_only
    rest = value[1:] if excluded else value
    if rest.startswith("="):
        exact, rest = True, rest[1:]
    wanted = [item.strip() for item in rest.split(",") if item.strip()]
    matched = [name for name in names if any(name == item if exact else name.startswith(item) for item in wanted)]
    return len(matched) < len(names) if excluded else bool(matched)
