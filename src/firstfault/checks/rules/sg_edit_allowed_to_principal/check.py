"""Roles, users and groups of the inputs that keep a right to edit rules, over all of their policies."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.iam.decision import PolicySet
from firstfault.checks.iam.group_guard import (
    EDITS,
    GROUP,
    excepted_principals,
    guards,
    looks_like_load_balancer_controller,
    looks_like_terraform,
    may,
)
from firstfault.checks.iam.matching import arn_matches
from firstfault.checks.iam.policy import Policy
from firstfault.checks.iam.sources import Principal, policy_sources, principals
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.terraform.eks import eks_modules


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every declared principal, where the inputs have a cluster or a guard to protect."""
    known = guards(inventory)
    if not known and not eks_modules(inventory) and not inventory.resources("aws_eks_cluster"):
        return
    control = [source.policy for source in policy_sources(inventory) if source.kind in {"control", "file"}]
    denies = [policy for policy in control if not any(statement.effect == "Allow" for statement in policy.statements)]
    tags = {key: value for guard in known for key, value in guard.tags.items()}
    excepted = [pattern for guard in known for pattern in excepted_principals(guard)]
    for principal in principals(inventory):
        if not _may_legitimately(principal, excepted):
            yield from _judge(principal, denies, tags)


def _may_legitimately(principal: Principal, excepted: list[str]) -> bool:
    name = f"{principal.name} {principal.arn.rpartition('/')[2]}"
    return (
        looks_like_terraform(name)
        or looks_like_load_balancer_controller(name)
        or any(arn_matches(pattern, principal.arn) for pattern in excepted)
    )


def _judge(principal: Principal, denies: list[Policy], tags: dict[str, str]) -> Iterator[Outcome]:
    policies = PolicySet(identity=[*principal.policies, *denies], boundary=principal.boundary)
    if not principal.policies and not principal.unknown:
        return
    kept = [edit for edit in EDITS if may(principal.arn, edit, GROUP, tags=tags, policies=policies).may_be_allowed]
    if kept:
        by = may(principal.arn, kept[0], GROUP, tags=tags, policies=policies).by
        yield failed(principal.place, principal.address, f"may call {', '.join(kept)} by {by}")
    elif principal.unknown:
        yield unknown(principal.place, principal.address, f"a policy of it is not known: {principal.unknown}")
    else:
        yield passed(principal.place, principal.address)
