"""Feature gate NodeRepair of Karpenter, where it makes GPU nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.helm import helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.karpenter import gpu_node_pools
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved

_GATE = re.compile(r"NodeRepair=(true|false)", re.IGNORECASE)


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the installation of Karpenter, by chart or by manifest."""
    if not gpu_node_pools(inventory):
        return
    for release in helm_releases(inventory, "karpenter"):
        value = release.value("settings.featureGates.nodeRepair", False)
        if isinstance(value, Unresolved):
            yield unresolved(release.place, release.subject, "settings.featureGates.nodeRepair", value)
        elif value is True or str(value).lower() == "true":
            yield passed(release.place, release.subject)
        else:
            yield failed(release.place, release.subject, "settings.featureGates.nodeRepair is off (the default)")
    for pod in inventory.pods:
        for container in pod.containers:
            if "/karpenter/controller" in container.image:
                gates = f"{container.env('FEATURE_GATES')} {' '.join(container.words)}"
                found = _GATE.search(gates)
                place = container.place("env")
                if found and found[1].lower() == "true":
                    yield passed(place, container.subject)
                else:
                    yield failed(place, container.subject, "the feature gate NodeRepair is off")
