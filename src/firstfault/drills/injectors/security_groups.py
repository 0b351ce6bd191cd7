"""Flips the switches that move security-group rules, as a change of Terraform variables does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from firstfault.drills.injectors.base import Injector
from firstfault.model.drill import Change, ChangedRule
from firstfault.model.securitygroups import SecurityGroup, plan_change

if TYPE_CHECKING:
    from firstfault.drills.topology import Topology
    from firstfault.model.securitygroups import GroupRule

__all__ = ["SecurityGroupToggles"]


class _Groups(Protocol):
    """What this injector needs of a world: to read and replace the rules of its security groups."""

    topology: Topology
    groups: list[SecurityGroup]

    def set_groups(self, groups: list[SecurityGroup]) -> None: ...


class SecurityGroupToggles(Injector, frozen=True, kw_only=True, tag="security-group-toggles"):
    """Turns toggles of the topology off or on.

    Attributes:
        set: The toggles and their new values.
    """

    set: dict[str, bool]

    def describe(self, world: _Groups) -> Change:
        """List the rules that the toggles move."""
        plan = plan_change(world.groups, world.topology.groups_with(self.set))
        changes: list[tuple[Literal["add", "destroy"], list[tuple[str, GroupRule]]]]
        changes = [("add", plan.add), ("destroy", plan.destroy)]
        rules = [
            ChangedRule(
                action=action,
                group=group,
                direction=rule.direction,
                ports=rule.port_text,
                peer=rule.peer,
                title=rule.title,
                role=rule.role,
            )
            for action, changed in changes
            for group, rule in changed
        ]
        steps = [f"set {name} = {str(value).lower()}" for name, value in self.set.items()]
        return Change(summary=str(plan), rules=rules, steps=steps)

    def prepare(self, world: _Groups) -> dict[str, Any]:
        """Record the rules as they are."""
        record: dict[str, Any] = {"groups": msgspec.to_builtins(world.groups)}
        return record

    def inject(self, world: _Groups) -> None:
        """Replace the rules, on every interface that has the groups."""
        world.set_groups(world.topology.groups_with(self.set))

    @classmethod
    def undo(cls, world: _Groups, record: dict[str, Any]) -> None:
        """Put the recorded rules back."""
        world.set_groups(msgspec.convert(record["groups"], list[SecurityGroup]))
