"""MutatingAdmissionPolicy against the version of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.terraform.eks import eks_modules

_SINCE = (1, 36)
_VERSION = re.compile(r"(\d+)\.(\d+)")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every such policy, when the version of an EKS cluster is among the inputs."""
    values = [block.get("version") for block in inventory.resources("aws_eks_cluster")]
    values += [module.get("kubernetes_version", "cluster_version") for module in eks_modules(inventory)]
    missing = next((value for value in values if isinstance(value, Unresolved)), None)
    found = [match for value in values if isinstance(value, str) and (match := _VERSION.match(value))]
    versions = [(int(match[1]), int(match[2])) for match in found]
    for policy in inventory.objects("MutatingAdmissionPolicy", "admissionregistration.k8s.io"):
        place = policy.place("apiVersion")
        if versions and min(versions) < _SINCE:
            version = ".".join(map(str, min(versions)))
            yield failed(place, policy.subject, f"the cluster runs {version}, where {policy.api_version} is off")
        elif missing is not None:
            yield unresolved(place, policy.subject, "the version of the cluster", missing)
        elif versions:
            yield passed(place, policy.subject)
