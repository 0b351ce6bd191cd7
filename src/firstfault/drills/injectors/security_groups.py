"""Flips the switches that move security-group rules, as a change of Terraform variables does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from firstfault.drills.injectors.base import Injector
from firstfault.errors import InputError
from firstfault.model.drill import Change, ChangedRule
from firstfault.model.securitygroups import GroupRule, SecurityGroup, plan_change

if TYPE_CHECKING:
    from firstfault.drills.topology import Topology
    from firstfault.model.securitygroups import Plan

__all__ = ["SecurityGroupRules", "SecurityGroupToggles", "change_of"]


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
        change = change_of(plan_change(world.groups, world.topology.groups_with(self.set)))
        steps = [f"set {name} = {str(value).lower()}" for name, value in self.set.items()]
        return msgspec.structs.replace(change, steps=steps)

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


class SecurityGroupRules(Injector, frozen=True, kw_only=True, tag="security-group-rules"):
    """Takes rules out of security groups and puts others in.

    Attributes:
        remove: Rules that go, as `group/id`.
        add: Rules that come, by group.
    """

    remove: list[str] = msgspec.field(default_factory=list)
    add: dict[str, list[GroupRule]] = msgspec.field(default_factory=dict)

    def _after(self, groups: list[SecurityGroup]) -> list[SecurityGroup]:
        known = {f"{group.name}/{rule.id}" for group in groups for rule in group.rules}
        if unknown := set(self.remove) - known | {f"{name}/" for name in set(self.add) - {g.name for g in groups}}:
            raise InputError(
                f"no security-group rule is called {min(unknown)!r}", f"there is {', '.join(sorted(known))}"
            )
        return [
            SecurityGroup(
                name=group.name,
                rules=[
                    *(rule for rule in group.rules if f"{group.name}/{rule.id}" not in self.remove),
                    *self.add.get(group.name, []),
                ],
            )
            for group in groups
        ]

    def describe(self, world: _Groups) -> Change:
        """List the rules that come and go."""
        return change_of(plan_change(world.groups, self._after(world.groups)))

    def prepare(self, world: _Groups) -> dict[str, Any]:
        """Record the rules as they are."""
        record: dict[str, Any] = {"groups": msgspec.to_builtins(world.groups)}
        return record

    def inject(self, world: _Groups) -> None:
        """Replace the rules, on every interface that has the groups."""
        world.set_groups(self._after(world.groups))

    @classmethod
    def undo(cls, world: _Groups, record: dict[str, Any]) -> None:
        """Put the recorded rules back."""
        world.set_groups(msgspec.convert(record["groups"], list[SecurityGroup]))


def change_of(plan: Plan) -> Change:
    """Return a plan of security-group rules as a drill's report lists them."""
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
    return Change(summary=str(plan), rules=rules)
