"""Attaching another group to a node's interface must be refused, too."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.iam.decision import Decision, PolicySet
from firstfault.checks.iam.group_guard import ALLOW_ALL, GENERIC, INTERFACE, guards, may
from firstfault.checks.iam.sources import policy_sources
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed

_CALL = "ec2:ModifyNetworkInterfaceAttribute"
# Tags that EKS and its CNI put on the interfaces of nodes.
_EKS_TAGS = {"cluster.k8s.amazonaws.com/name": "gpu", "node.k8s.amazonaws.com/instance_id": "i-0123456789abcdef0"}


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every guard together with all other policies of the inputs."""
    every = [source.policy for source in policy_sources(inventory)]
    policies = PolicySet(identity=[ALLOW_ALL, *every])
    for guard in guards(inventory):
        decision = may(GENERIC[0], _CALL, INTERFACE, tags=_EKS_TAGS, policies=policies)
        place = guard.source.place_of(guard.statements[0])
        if decision.may_be_allowed:
            yield failed(place, guard.source.address, _message(decision))
        else:
            yield passed(place, guard.source.address)


def _message(decision: Decision) -> str:
    condition = "" if decision.maybe_denied_by is None else ", except under a condition that may not hold"
    return f"an ordinary role may still call {_CALL} on a node's interface{condition}"
