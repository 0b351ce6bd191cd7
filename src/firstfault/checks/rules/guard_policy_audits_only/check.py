"""Policies about GPU Pods must refuse, not report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.outcome import Outcome, failed, passed

_GUARDS = re.compile(
    r"nvidia\.com/|NCCL_|enableServiceLinks|clusterpolicies|vpc\.amazonaws\.com/efa|TORCH_NCCL|/dev/shm"
)
_ADMISSION = "admissionregistration.k8s.io"


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge policies of Kyverno and of the API server that are about GPU workloads."""
    for kind in ("ClusterPolicy", "Policy"):
        for policy in inventory.objects(kind, "kyverno.io"):
            if _GUARDS.search(str(policy.body)):
                yield from _kyverno(policy)
    bindings = inventory.objects("ValidatingAdmissionPolicyBinding", _ADMISSION)
    for policy in inventory.objects("ValidatingAdmissionPolicy", _ADMISSION):
        mine = [item for item in bindings if item.get("spec", "policyName") == policy.name]
        if not mine or not _GUARDS.search(str(policy.body)):
            continue
        actions = {str(action) for item in mine for action in _listed(item.get("spec", "validationActions"))}
        place = mine[0].place("spec", "validationActions")
        if "Deny" in actions:
            yield passed(place, policy.subject)
        elif "Warn" in actions and policy.get("spec", "failurePolicy") == "Ignore":
            # It fails open as well: whoever wrote it means to warn, and does not count on it.
            yield passed(place, policy.subject, "warns on purpose: failurePolicy is Ignore")
        else:
            yield failed(place, policy.subject, f"validationActions {sorted(actions)} let everything through")


def _kyverno(policy: KubeObject) -> Iterator[Outcome]:
    common = policy.get("spec", "validationFailureAction")
    for index, rule in enumerate(_listed(policy.get("spec", "rules"))):
        validate = rule.get("validate") if isinstance(rule, dict) else None
        if not isinstance(validate, dict):
            continue
        action = validate.get("failureAction", common)
        subject = f"{policy.subject}#{rule.get('name', index)}"
        place = policy.place("spec", "rules", index, "validate", "failureAction")
        if str(action).lower() == "enforce":
            yield passed(place, subject)
        else:
            how = f"is {action}" if isinstance(action, str) else "is not set, which means Audit"
            yield failed(place, subject, f"failureAction {how}: the Pod is admitted")


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
