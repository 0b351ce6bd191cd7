"""Roles that let people change the ClusterPolicy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.located import Place, dig
from firstfault.checks.outcome import Outcome, failed, passed

_GROUP = "rbac.authorization.k8s.io"
_WRITES = frozenset({"update", "patch", "delete", "deletecollection", "*"})
_ADMINS = frozenset({"system:masters", "system:nodes"})
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge roles about NVIDIA's resources, wildcards that people are bound to, and cluster-admin for groups."""
    bound = _bound(inventory)
    for kind in ("ClusterRole", "Role"):
        for role in inventory.objects(kind, _GROUP):
            yield from _judge(
                role, bound.get((kind, role.name if kind == "ClusterRole" else f"{role.namespace}/{role.name}"), [])
            )
    for binding in inventory.objects("ClusterRoleBinding", _GROUP):
        people = _people(binding)
        if binding.get("roleRef", "name") == "cluster-admin" and people:
            message = f"{', '.join(people)} may do anything, so also edit the ClusterPolicy"
            yield failed(binding.place("roleRef"), binding.subject, message)


def _judge(role: KubeObject, people: list[str]) -> Iterator[Outcome]:
    place = _grant(role)
    into = sorted(
        key.removeprefix(_AGGREGATE)
        for key, value in role.labels.items()
        if str(key).startswith(_AGGREGATE) and str(value) == "true"
    )
    if place is None:
        if _names_policies(role):
            yield passed(role.place("rules"), role.subject)
        return
    if people:
        yield failed(place, role.subject, f"lets {', '.join(people)} edit clusterpolicies.nvidia.com")
    elif into:
        yield failed(
            place, role.subject, f"is aggregated into {', '.join(into)}, so everybody who has that may edit it"
        )
    elif _names_policies(role):
        yield passed(place, role.subject, "no person or group among the inputs is bound to it")


def _rules(role: KubeObject) -> Iterator[tuple[int, dict[str, Any]]]:
    rules = role.body.get("rules")
    for index, rule in enumerate(rules if isinstance(rules, list) else []):
        if isinstance(rule, dict):
            yield index, rule


def _listed(rule: dict[str, Any], key: str) -> set[str]:
    value = rule.get(key)
    return {str(item) for item in value} if isinstance(value, list) else set()


def _grant(role: KubeObject) -> Place | None:
    for index, rule in _rules(role):
        groups, resources, verbs = (_listed(rule, key) for key in ("apiGroups", "resources", "verbs"))
        if groups & {"nvidia.com", "*"} and resources & {"clusterpolicies", "*"} and verbs & _WRITES:
            return role.place("rules", index)
    return None


def _names_policies(role: KubeObject) -> bool:
    return any(
        "clusterpolicies" in _listed(rule, "resources") and _listed(rule, "apiGroups") & {"nvidia.com", "*"}
        for _, rule in _rules(role)
    )


def _people(binding: KubeObject) -> list[str]:
    subjects = binding.body.get("subjects")
    return [
        f"{item.get('kind')} {item.get('name')}"
        for item in (subjects if isinstance(subjects, list) else [])
        if isinstance(item, dict)
        and (
            (item.get("kind") in {"Group", "User"} and not str(item.get("name")).startswith("system:serviceaccount"))
            or (item.get("kind") == "ServiceAccount" and item.get("name") == "default")
        )
        and item.get("name") not in _ADMINS
    ]


def _bound(inventory: Inventory) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for binding in inventory.objects(kind, _GROUP):
            target = str(dig(binding.body, "roleRef", "kind"))
            name = str(dig(binding.body, "roleRef", "name"))
            # A ClusterPolicy has no namespace: a RoleBinding grants nothing on it.
            if kind == "RoleBinding":
                continue
            found.setdefault((target, name), []).extend(_people(binding))
    return found
