"""The principal that the guard means to except must really escape it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.iam.decision import PolicySet
from firstfault.checks.iam.group_guard import ALLOW_ALL, EDITS, GROUP, Guard, excepted_principals, guards, may
from firstfault.checks.iam.sources import ACCOUNT
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed

_SESSION = re.compile(r"arn:aws[\w-]*:sts::([^:]*):assumed-role/([^/]+)/.*")
_OTHER_EXCEPTIONS = ("aws:principaltag/", "aws:userid", "aws:principalorgpaths")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the exceptions of every guard."""
    for guard in guards(inventory):
        place = guard.source.place_of(guard.statements[0])
        patterns = excepted_principals(guard)
        if not patterns and _excepts_otherwise(guard):
            continue
        if not patterns:
            yield failed(place, guard.source.address, "the deny has no exception: Terraform's role is refused, too")
            continue
        refused = [pattern for pattern in patterns if _is_refused(guard, pattern)]
        if len(refused) == len(patterns):
            yield failed(
                place,
                guard.source.address,
                f"the exception for {', '.join(refused)} does not hold: the role's session is refused all the same",
            )
        else:
            yield passed(place, guard.source.address)


def _excepts_otherwise(guard: Guard) -> bool:
    return any(
        key.lower().startswith(_OTHER_EXCEPTIONS)
        for statement in guard.statements
        for operands in statement.conditions.values()
        for key in operands
    )


def _is_refused(guard: Guard, pattern: str) -> bool:
    session = _SESSION.fullmatch(pattern)
    arn = f"arn:aws:iam::{ACCOUNT}:role/{session[2]}" if session else pattern
    arn = arn.replace("::*:", f"::{ACCOUNT}:").replace("*", "x").replace("?", "x")
    policies = PolicySet(identity=[ALLOW_ALL, guard.source.policy])
    return any(not may(arn, edit, GROUP, tags=guard.tags, policies=policies).may_be_allowed for edit in EDITS)
