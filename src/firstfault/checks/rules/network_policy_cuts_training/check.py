"""The union of the NetworkPolicies of a distributed Pod, for traffic to and from Pods of its own kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject, PodView
from firstfault.checks.located import dig
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import distributed_pods

_PORTS = (29500, 32768, 60999)


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the distributed Pods that some policy of the inputs selects."""
    policies = inventory.objects("NetworkPolicy", "networking.k8s.io")
    for pod in distributed_pods(inventory):
        if pod.get("hostNetwork") is True:
            continue
        mine = [
            item
            for item in policies
            if item.namespace == pod.owner.namespace and _selects(item.get("spec", "podSelector"), pod)
        ]
        for direction, key in (("Ingress", "from"), ("Egress", "to")):
            concerned = [item for item in mine if direction in _types(item)]
            if concerned:
                yield _judge(pod, concerned, direction, key)


def _judge(pod: PodView, policies: list[KubeObject], direction: str, key: str) -> Outcome:
    rules = [rule for item in policies for rule in _list(item.get("spec", direction.lower()))]
    open_rules = [rule for rule in rules if isinstance(rule, dict) and _peer_matches(rule.get(key), pod)]
    closed = [port for port in _PORTS if not any(_port_open(rule.get("ports"), port) for rule in open_rules)]
    place, subject = policies[0].place("spec"), f"{pod.subject}/{direction}"
    if closed:
        names = ", ".join(item.subject for item in policies)
        return failed(
            place, subject, f"{names}: {direction.lower()} between ranks is closed on tcp {', '.join(map(str, closed))}"
        )
    return passed(place, subject)


def _types(item: KubeObject) -> list[Any]:
    types = item.get("spec", "policyTypes")
    if isinstance(types, list):
        return types
    return ["Ingress", "Egress"] if isinstance(item.get("spec", "egress"), list) else ["Ingress"]


def _selects(selector: Any, pod: PodView) -> bool:
    if not isinstance(selector, dict):
        return False
    labels = selector.get("matchLabels")
    wanted = labels if isinstance(labels, dict) else {}
    if any(pod.labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_expression(item, pod) for item in _list(selector.get("matchExpressions")) if isinstance(item, dict))


def _expression(item: dict[str, Any], pod: PodView) -> bool:
    value = pod.labels.get(str(item.get("key")))
    values = _list(item.get("values"))
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }.get(str(item.get("operator")), False)


def _peer_matches(peers: Any, pod: PodView) -> bool:
    """Tell whether a rule's peers include a Pod like this one; no peers means everybody."""
    if not peers:
        return True
    for peer in _list(peers):
        if "ipBlock" in peer:
            cidr = str(dig(peer, "ipBlock", "cidr"))
            if not dig(peer, "ipBlock", "except") and cidr.partition("/")[2] in {"0", "8", "10", "12", "16"}:
                return True
        elif peer.get("namespaceSelector"):
            continue  # labels of namespaces are not known here: it may or may not be this one
        elif _selects(peer.get("podSelector") or {}, pod):
            return True
    return False


def _port_open(ports: Any, port: int) -> bool:
    if not ports:
        return True
    for item in _list(ports):
        if not isinstance(item, dict) or item.get("protocol", "TCP") != "TCP":
            continue
        first = item.get("port")
        if first is None:
            return True
        last = item.get("endPort", first)
        if isinstance(first, int) and isinstance(last, int) and first <= port <= last:
            return True
    return False


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
