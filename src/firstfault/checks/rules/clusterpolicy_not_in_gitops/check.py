"""A ClusterPolicy beside GitOps must belong to it."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.gitops import gitops_objects, gitops_of_gpu_operator
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown

_TRACKING = ("argocd.argoproj.io/tracking-id", "kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge each ClusterPolicy, where GitOps is in use or the inputs are everything there is."""
    others = gitops_objects(inventory)
    if not others and not inventory.complete:
        return
    for policy in inventory.objects("ClusterPolicy", "nvidia.com"):
        place = policy.place("metadata", "name")
        marks = {**policy.labels, **policy.annotations}
        if gitops_of_gpu_operator(inventory) or any(key in marks for key in _TRACKING):
            yield passed(place, policy.subject)
        elif any(item.kind == "Kustomization" and item.get("spec", "path") in {"./", ".", "/"} for item in others):
            yield unknown(place, policy.subject, "a Kustomization of the whole repository may hold it")
        else:
            yield failed(place, policy.subject, f"none of {len(others)} GitOps objects leads to it")
