"""Calls that take the guard's tag away must be refused like the edits themselves."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.iam.decision import PolicySet
from firstfault.checks.iam.group_guard import ALLOW_ALL, GENERIC, GROUP, guards, may, tag_requests
from firstfault.checks.iam.sources import policy_sources
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every guard that asks for a tag, together with all other policies of the inputs."""
    every = [source.policy for source in policy_sources(inventory)]
    policies = PolicySet(identity=[ALLOW_ALL, *every])
    for guard in guards(inventory):
        if not guard.tags:
            continue
        ways = [
            what
            for what, action, context, absent in tag_requests(guard.tags)
            if may(
                GENERIC[0], action, GROUP, tags=guard.tags, policies=policies, context=context, absent=absent
            ).may_be_allowed
        ]
        place = guard.source.place_of(guard.statements[0])
        if ways:
            yield failed(place, guard.source.address, f"the tag comes off by {'; '.join(ways)}")
        else:
            yield passed(place, guard.source.address)
