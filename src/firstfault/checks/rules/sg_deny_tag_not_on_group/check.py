"""The guard must hold for the tags that the node security group really gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firstfault.checks.iam.decision import PolicySet
from firstfault.checks.iam.group_guard import ALLOW_ALL, EDITS, GENERIC, GROUP, guards, may
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import ABSENT, Place, Unresolved, dig, find_unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.terraform.eks import EksModule, eks_modules, is_set


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every node security group of the EKS module against the guards of the inputs."""
    asking = [guard for guard in guards(inventory) if guard.tags]
    for eks in eks_modules(inventory) if asking else []:
        tags, place = _tags(eks)
        subject = f"{eks.block.address}#node_security_group"
        missing = next(find_unresolved(tags), None) if isinstance(tags, dict) else tags
        if missing is not None:
            yield unresolved(place, subject, "the group's tags", missing)
            continue
        policies = PolicySet(identity=[ALLOW_ALL, *(guard.source.policy for guard in asking)])
        texts = {str(key): str(value) for key, value in tags.items()}
        left = [edit for edit in EDITS if may(GENERIC[0], edit, GROUP, tags=texts, policies=policies).may_be_allowed]
        if left:
            wanted = ", ".join(f"{key}={value}" for guard in asking for key, value in guard.tags.items())
            have = ", ".join(f"{key}={value}" for key, value in texts.items()) or "none"
            yield failed(place, subject, f"the guard asks for {wanted}; the group's tags are {have}")
        else:
            yield passed(place, subject)


def _tags(eks: EksModule) -> tuple[Any, Place]:
    """Return the tags of the node security group: the provider's, the module's and its own."""
    tags: dict[Any, Any] = {}
    place = eks.place("node_security_group_tags", "tags")
    providers = [block.get("default_tags", 0, "tags") for block in eks.config.find("provider") if block.name == "aws"]
    for source in [*providers, eks.block.get("tags"), eks.block.get("node_security_group_tags")]:
        if isinstance(source, Unresolved):
            return source, place
        if is_set(source) and isinstance(source, dict):
            tags |= source
    cluster = eks.get("name", "cluster_name")
    if isinstance(cluster, str):
        tags[f"kubernetes.io/cluster/{cluster}"] = "owned"
    return {key: value for key, value in tags.items() if dig(tags, key) is not ABSENT}, place
