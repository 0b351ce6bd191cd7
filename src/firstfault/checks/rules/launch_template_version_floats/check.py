"""Versions of launch templates that change without a plan."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.terraform.eks import is_set, node_groups

_FLOATING = {"$Latest", "$Default"}


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge GPU groups that write the version of their launch template."""
    for group in node_groups(inventory):
        if not group.is_gpu:
            continue
        for path in (("launch_template", 0, "version"), ("launch_template_version",)):
            version = group.get(*path)
            if not is_set(version):
                continue
            if version in _FLOATING:
                yield failed(group.place(*path), group.subject, f"the launch template's version is {version}")
            else:
                yield passed(group.place(*path), group.subject)
