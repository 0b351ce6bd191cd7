"""Every call that edits rules must be refused to an ordinary principal, on a group with the guard's tag."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.iam.decision import PolicySet
from firstfault.checks.iam.group_guard import ALLOW_ALL, EDITS, GENERIC, GROUP, guards, may
from firstfault.checks.iam.policy import Statement
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every policy that denies editing security groups."""
    for guard in guards(inventory):
        policies = PolicySet(identity=[ALLOW_ALL, guard.source.policy])
        left: list[str] = []
        conditions: set[str] = set()
        for edit in EDITS:
            answers = [may(principal, edit, GROUP, tags=guard.tags, policies=policies) for principal in GENERIC]
            if any(answer.may_be_allowed for answer in answers):
                left.append(edit)
                conditions |= {key for answer in answers for key in _unknown_keys(answer.maybe_denied_by)}
        place = guard.source.place_of(guard.statements[0])
        if left:
            only = f"; they are refused only depending on {', '.join(sorted(conditions))}" if conditions else ""
            yield failed(
                place, guard.source.address, f"an ordinary role or user may still call {', '.join(left)}{only}"
            )
        else:
            yield passed(place, guard.source.address)


def _unknown_keys(statement: Statement | None) -> list[str]:
    """Return the condition keys on which a deny depends beside the principal and the group's tag."""
    keys = [key for operands in statement.conditions.values() for key in operands] if statement else []
    return [key for key in keys if key.lower() != "aws:principalarn" and "resourcetag/" not in key.lower()]
