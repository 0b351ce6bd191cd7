"""devicePlugin.enabled: false needs another device plugin."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import SetYaml
from firstfault.checks.gpu_operator import gpu_operators
from firstfault.checks.helm import helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every GPU operator of the inputs."""
    for operator in gpu_operators(inventory):
        enabled = operator.enabled("devicePlugin")
        place = operator.place("devicePlugin")
        if enabled is True or _replaced(inventory):
            yield passed(place, operator.subject)
        elif isinstance(enabled, Unresolved):
            if operator.release is None:
                yield unresolved(place, operator.subject, "devicePlugin.enabled", enabled)
        else:
            edits = []
            if operator.policy is not None:
                item = operator.policy
                edits = [
                    SetYaml(
                        path=item.path, line=item.place().line, steps=("spec", "devicePlugin", "enabled"), value=True
                    )
                ]
            yield failed(
                place,
                operator.subject,
                "devicePlugin.enabled is false, and no other device plugin is among the inputs",
                edits=edits,
            )


def _replaced(inventory: Inventory) -> bool:
    """Tell whether another plugin is there, or the platform brings one."""
    if helm_releases(inventory, "nvidia-device-plugin", "dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu"):
        return True
    if any("device-plugin" in item.name for item in inventory.objects("DaemonSet", "apps")):
        return True
    # EKS clusters in Terraform: Auto Mode and AMIs bring plugins, which the checks of B12 judge.
    return bool(inventory.resources("aws_eks_cluster", "aws_eks_addon")) or any(
        "eks" in block.type for block in inventory.blocks("module")
    )
