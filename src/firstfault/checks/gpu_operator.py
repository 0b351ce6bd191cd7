"""The NVIDIA GPU Operator as checks see it: a Helm release, or a ClusterPolicy object."""

from __future__ import annotations

from typing import Any

import msgspec

from firstfault.checks.helm import HelmRelease, helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.located import ABSENT, Place, Unresolved

__all__ = ["CHART", "GpuOperator", "gpu_operators"]

CHART = "gpu-operator"
# What the chart and the ClusterPolicy switch on where nothing is written.
_DEFAULTS = {
    "dcgmExporter": True, "devicePlugin": True, "driver": True, "gfd": True, "migManager": True, "nfd": True,
    "toolkit": True, "dcgm": False,
}  # fmt: skip


class GpuOperator(msgspec.Struct, frozen=True, eq=False):
    """One installation; exactly one of `release` and `policy` is set."""

    release: HelmRelease | None = None
    policy: KubeObject | None = None

    @property
    def subject(self) -> str:
        """For findings."""
        return self.release.subject if self.release else self.policy.subject if self.policy else ""

    def value(self, component: str, *path: str) -> Any:
        """Return a component's setting, an `Unresolved`, or ABSENT."""
        if self.release is not None:
            return self.release.value(".".join((component, *path)))
        assert self.policy is not None
        return self.policy.get("spec", component, *path)

    def enabled(self, component: str) -> bool | Unresolved:
        """Tell whether a component is on: as written, else by default."""
        value = self.value(component, "enabled")
        if isinstance(value, Unresolved):
            return value
        return _DEFAULTS.get(component, True) if value is ABSENT or value is None else value is True

    def place(self, component: str) -> Place:
        """Return the line of a component's setting, or of the installation."""
        if self.release is not None:
            return self.release.place
        assert self.policy is not None
        return self.policy.place("spec", component, "enabled")


def gpu_operators(inventory: Inventory) -> list[GpuOperator]:
    """Return every installation of the operator in the inputs."""
    releases = [GpuOperator(release=release) for release in helm_releases(inventory, CHART)]
    policies = [GpuOperator(policy=item) for item in inventory.objects("ClusterPolicy", "nvidia.com")]
    return [*releases, *policies]
