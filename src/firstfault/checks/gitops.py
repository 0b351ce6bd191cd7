"""GitOps objects (Argo CD, Flux) as checks see them."""

from __future__ import annotations

import re

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject

__all__ = ["gitops_objects", "gitops_of_gpu_operator"]

_GPU = re.compile(r"gpu-operator|clusterpolic|nvidia", re.IGNORECASE)
_KINDS = (
    ("Application", "argoproj.io"),
    ("Kustomization", "kustomize.toolkit.fluxcd.io"),
    ("HelmRelease", "helm.toolkit.fluxcd.io"),
)


def gitops_objects(inventory: Inventory) -> list[KubeObject]:
    """Return the Applications, Kustomizations and HelmReleases of the inputs."""
    return [item for kind, group in _KINDS for item in inventory.objects(kind, group)]


def gitops_of_gpu_operator(inventory: Inventory) -> list[KubeObject]:
    """Return those that install the GPU operator or hold its ClusterPolicy, by chart, path or name."""
    found = []
    for item in gitops_objects(inventory):
        sources = item.get("spec", "sources")
        listed = sources if isinstance(sources, list) else [item.get("spec", "source")]
        words = [str(source.get(key, "")) for source in listed if isinstance(source, dict) for key in ("chart", "path")]
        words += [str(item.get("spec", "path")), str(item.get("spec", "chart", "spec", "chart")), item.name]
        if _GPU.search(" ".join(words)):
            found.append(item)
    return found
