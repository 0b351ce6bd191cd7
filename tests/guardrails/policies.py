"""Carries out rendered policies on a Pod, as far as that can be done without an API server or Kyverno.

CEL runs in a CEL library. `Object.spec.x{a: b}` is Kubernetes' way to write a partial object; here it becomes a map and is
merged by the keys by which server-side apply merges these lists. Kyverno's `{{ }}` are JMESPath.
"""

from __future__ import annotations

import copy
import re
from fnmatch import fnmatchcase
from typing import Any

import cel
import jmespath

KEYS = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath"}
FIELDS = "spec|containers|name|env|value|volumes|volumeMounts|mountPath|emptyDir|medium|enableServiceLinks"


def run_cel(expression: str, pod: dict[str, Any], variables: dict[str, Any]) -> Any:
    """Evaluate one expression."""
    return cel.evaluate(expression, {"object": pod, "variables": variables})


def evaluated(named: list[dict[str, str]], pod: dict[str, Any]) -> dict[str, Any]:
    """Evaluate a policy's variables in their order."""
    values: dict[str, Any] = {}
    for variable in named:
        values[variable["name"]] = run_cel(variable["expression"], pod, values)
    return values


def native(documents: list[dict[str, Any]], pod: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the Pod after the mutating policies, and the messages of the validations that fail."""
    pod = copy.deepcopy(pod)
    pod["spec"].setdefault("enableServiceLinks", True)  # the API server's defaulting comes before admission
    for policy in documents:
        if policy["kind"] == "MutatingAdmissionPolicy" and _selected(policy, pod):
            for mutation in policy["spec"]["mutations"]:
                variables = evaluated(policy["spec"]["variables"], pod)
                expression = as_map(mutation["applyConfiguration"]["expression"])
                merge(pod, run_cel(expression, pod, variables))
    messages = []
    for policy in documents:
        if policy["kind"] == "ValidatingAdmissionPolicy" and _selected(policy, pod):
            variables = evaluated(policy["spec"]["variables"], pod)
            messages += [
                v["message"] for v in policy["spec"]["validations"] if not run_cel(v["expression"], pod, variables)
            ]
    return pod, messages


def _selected(policy: dict[str, Any], pod: dict[str, Any]) -> bool:
    excluded = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"][0]["values"]
    return pod["metadata"]["namespace"] not in excluded and all(
        run_cel(condition["expression"], pod, {}) for condition in policy["spec"]["matchConditions"]
    )


def as_map(expression: str) -> str:
    """Turn `Object.a.b{c: d}` into a map."""
    plain = re.sub(r"Object(?:\.\w+)*\{", "{", expression)
    return re.sub(rf"(?<=[{{ ])({FIELDS}): ", r"'\1': ", plain)


def merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """Merge a partial object as server-side apply does: lists by their keys, nothing removed."""
    for field, value in patch.items():
        if isinstance(value, dict):
            merge(target.setdefault(field, {}), value)
        elif isinstance(value, list):
            key = KEYS[field]
            items = target.setdefault(field, []) if value else target.get(field, [])
            for item in value:
                found = next((old for old in items if old.get(key) == item[key]), None)
                if found is None:
                    items.append(found := {key: item[key]})
                merge(found, item)
        else:
            target[field] = value


def kyverno(documents: list[dict[str, Any]], pod: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the Pod after Kyverno's mutations, and the messages of the validations that fail."""
    pod = copy.deepcopy(pod)
    pod["spec"].setdefault("enableServiceLinks", True)
    rules = [rule for document in documents for rule in document["spec"]["rules"]]
    for rule in rules:
        if "mutate" in rule and _matched(rule, pod):
            _mutate(rule["mutate"], pod)
    messages = []
    for rule in rules:
        if "validate" not in rule or not _matched(rule, pod):
            continue
        if all(run_cel(c["expression"], pod, {}) for c in rule["celPreconditions"]):
            body = rule["validate"]["cel"]
            variables = evaluated(body["variables"], pod)
            messages += [e["message"] for e in body["expressions"] if not run_cel(e["expression"], pod, variables)]
    return pod, messages


def _matched(rule: dict[str, Any], pod: dict[str, Any]) -> bool:
    namespaces, labels = (entry["resources"] for entry in rule["exclude"]["any"])
    wanted = labels["selector"]["matchLabels"]
    has = pod["metadata"].get("labels", {})
    if pod["metadata"]["namespace"] in namespaces["namespaces"] or all(has.get(k) == v for k, v in wanted.items()):
        return False
    return _hold(rule.get("preconditions"), {"request": {"object": pod}})


def _mutate(mutate: dict[str, Any], pod: dict[str, Any]) -> None:
    if "patchStrategicMerge" in mutate:
        merge(pod, mutate["patchStrategicMerge"])
    for loop in mutate.get("foreach", []):
        for element in jmespath.search(loop["list"], {"request": {"object": copy.deepcopy(pod)}}):
            scope = {"request": {"object": pod}, "element": element}
            if _hold(loop.get("preconditions"), scope):
                merge(pod, _resolve(loop["patchStrategicMerge"], scope))


def _resolve(value: Any, scope: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _resolve(item, scope) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolve(item, scope) for item in value]
    if isinstance(value, str) and (match := re.fullmatch(r"\{\{(.*)\}\}", value, re.DOTALL)):
        found = jmespath.search(match[1].strip(), scope)
        assert found is not None, f"Kyverno fails on a variable that resolves to nothing: {value}"
        return found
    return value


def _hold(preconditions: dict[str, Any] | None, scope: dict[str, Any]) -> bool:
    return all(_compare(_resolve(c, scope)) for c in (preconditions or {}).get("all", []))


def _compare(condition: dict[str, Any]) -> bool:
    key, value = condition["key"], condition["value"]
    match condition["operator"]:
        case "Equals":
            return key == value
        case "GreaterThan":
            return key > value
        case "AnyIn":
            return any(fnmatchcase(str(key), pattern) for pattern in value)
        case "AnyNotIn":
            return not any(fnmatchcase(str(key), pattern) for pattern in value)
        case other:
            raise AssertionError(f"operator {other} is not known here")
