"""One owner for each component: the operator, or a chart or manifest of its own."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.gpu_operator import gpu_operators
from firstfault.checks.helm import helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Place, Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved

_CHARTS = {
    "nvidia-device-plugin": "devicePlugin",
    "dcgm-exporter": "dcgmExporter",
    "node-feature-discovery": "nfd",
    "gpu-feature-discovery": "gfd",
}
_DAEMON_SETS = {"nvidia-device-plugin": "devicePlugin", "dcgm-exporter": "dcgmExporter"}


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge charts and DaemonSets beside an operator, and a ClusterPolicy beside the operator's chart."""
    others = list(_others(inventory))
    operators = gpu_operators(inventory)
    releases = [operator for operator in operators if operator.release is not None]
    for operator in operators:
        if operator.policy is not None and releases:
            yield failed(
                operator.policy.place(), operator.subject, f"{releases[0].subject} writes a ClusterPolicy, too",
                "Put these settings into the chart's values and remove the object, or install the chart without it.",
            )  # fmt: skip
        for component, subject, place in others:
            enabled = operator.enabled(component)
            if isinstance(enabled, Unresolved):
                yield unresolved(place, subject, f"{component}.enabled of {operator.subject}", enabled)
            elif enabled:
                yield failed(place, subject, f"{component} is installed here and by {operator.subject}")
            else:
                yield passed(place, subject)


def _others(inventory: Inventory) -> Iterator[tuple[str, str, Place]]:
    for release in helm_releases(inventory, *_CHARTS):
        yield _CHARTS[release.chart], release.subject, release.place
    for item in inventory.objects("DaemonSet", "apps"):
        if "app.kubernetes.io/managed-by" in item.labels or item.get("metadata", "ownerReferences"):
            continue  # rendered from a chart, or made by the operator: not another source
        for name, component in _DAEMON_SETS.items():
            if item.name.startswith(name):
                yield component, item.subject, item.place()
