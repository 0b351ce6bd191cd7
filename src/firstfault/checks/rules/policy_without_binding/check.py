"""Admission policies of the API server need bindings."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown

_GROUP = "admissionregistration.k8s.io"
_KINDS = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every policy of the two kinds."""
    for kind in _KINDS:
        bindings = inventory.objects(f"{kind}Binding", _GROUP)
        others = [item for name in _KINDS for item in inventory.objects(f"{name}Binding", _GROUP)]
        for policy in inventory.objects(kind, _GROUP):
            place = policy.place("metadata", "name")
            if any(item.get("spec", "policyName") == policy.name for item in bindings):
                yield passed(place, policy.subject)
            elif others or inventory.complete:
                yield failed(place, policy.subject, f"none of {len(bindings)} objects {kind}Binding names it")
            else:
                yield unknown(place, policy.subject, "no binding is among the inputs")
