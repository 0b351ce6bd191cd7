"""A bucket for evidence needs a role that may write objects to it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.iam.decision import PolicySet, Request, decide
from firstfault.checks.iam.sources import Principal, bucket_arn, principals
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed

_EVIDENCE = re.compile(r"evidence|forensic|postmortem|crash-?dump|dcgm", re.IGNORECASE)


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every evidence bucket that some role of the inputs is meant to write to."""
    for bucket in inventory.resources("aws_s3_bucket"):
        arn = bucket_arn(bucket)
        if not _EVIDENCE.search(f"{bucket.name} {arn}"):
            continue
        meant = [role for role in principals(inventory) if _mentions(role, arn)]
        able = [role for role in meant if _may_write(role, arn)]
        if able:
            yield passed(able[0].place, bucket.address, f"{able[0].address} may write to it")
        elif meant:
            names = ", ".join(role.address for role in meant)
            yield failed(meant[0].place, bucket.address, f"{names} names the bucket, but may not put objects into it")


def _mentions(role: Principal, arn: str) -> bool:
    return any(
        pattern.startswith(arn)
        for policy in role.policies
        for statement in policy.statements
        for pattern in statement.resources
    )


def _may_write(role: Principal, arn: str) -> bool:
    request = Request(principal=role.arn, action="s3:PutObject", resource=f"{arn}/node-1/dmesg.txt", unknown="any")
    return decide(request, PolicySet(identity=role.policies, boundary=role.boundary)).may_be_allowed
