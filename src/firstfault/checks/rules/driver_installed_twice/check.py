"""Images with a driver, and an operator that installs one."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.gpu_operator import GpuOperator, gpu_operators
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.terraform.eks import node_groups


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every operator against the images of the GPU groups."""
    images = {group.ami_type for group in node_groups(inventory) if group.is_gpu and isinstance(group.ami_type, str)}
    with_driver = sorted(image for image in images if "NVIDIA" in image or image.endswith("_GPU"))
    if with_driver:
        for operator in gpu_operators(inventory):
            yield _judge(operator, with_driver)


def _judge(operator: GpuOperator, images: list[str]) -> Outcome:
    built_in = ["driver", *(["devicePlugin"] if any("BOTTLEROCKET" in image for image in images) else [])]
    for component in built_in:
        enabled = operator.enabled(component)
        place = operator.place(component)
        if isinstance(enabled, Unresolved):
            return unresolved(place, operator.subject, f"{component}.enabled", enabled)
        if enabled:
            return failed(place, operator.subject, f"{component} is on, and {', '.join(images)} already has it")
    return passed(operator.place("driver"), operator.subject)
