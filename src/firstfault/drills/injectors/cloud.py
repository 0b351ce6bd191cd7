"""The same security-group change on a real cluster: by Terraform, by EC2 calls, or by a NetworkPolicy.

Each `prepare` does all the checking that can be done without changing anything; an undo record holds plain data only,
enough for a later process to restore without the scenario.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.act.terraform import Child, SavedPlan, wait_for_child
from firstfault.drills.injectors.base import Injector
from firstfault.errors import RestoreError, UsageError
from firstfault.model.drill import Change

if TYPE_CHECKING:
    from firstfault.drills.eks.world import Eks

__all__ = ["Ec2Rules", "NetworkPolicy", "TerraformVariables"]

CHILD_PATIENCE_S = 60.0


def _children(world: Eks) -> list[Child]:
    """Return terraform children that an earlier process of this run started, as the journal names them."""
    return [Child(int(each["pid"]), int(each["started"])) for each in world.journaled("terraform-child")]


class TerraformVariables(Injector, frozen=True, kw_only=True, tag="terraform-variables"):
    """Flips variables of a root module and applies exactly the destroys that the configuration implies.

    Attributes:
        set: The variables and their values while the fault is there.
        restore: Their values otherwise.
    """

    set: dict[str, bool]
    restore: dict[str, bool]

    def describe(self, world: Eks) -> Change:
        """List the rules, and the addresses that the plan must destroy and nothing else."""
        addresses = world.expected_destroys(self.restore, self.set)
        change = world.describe_rules(self.set)
        steps = [f"terraform apply in {world.options.terraform_dir} destroys {address}" for address in addresses]
        return Change(summary=f"0 to add, 0 to change, {len(addresses)} to destroy", rules=change.rules, steps=steps)

    def prepare(self, world: Eks) -> dict[str, Any]:
        """Plan, and refuse a plan that is not exactly the expected one."""
        expected = world.expected_destroys(self.restore, self.set)
        with world.terraform() as terraform:
            calm = terraform.plan(self.restore)
            if calm.changes:
                found = ", ".join(f"{each.actions} {each.address}" for each in calm.changes)
                raise UsageError(
                    f"{terraform.root}: the cluster is not as its configuration says, before any fault: {found}",
                    "apply or revert that first: a drill restores to the configuration",
                )
            check_exactly(terraform.plan(self.set), expected, "delete")
        world.check_target(self.set)
        world.check_restorable()
        return {"set": dict(self.set), "restore": dict(self.restore), "addresses": expected}

    def inject(self, world: Eks) -> None:
        """Plan again and apply it, if it still is exactly the expected one."""
        with world.terraform() as terraform:
            plan = terraform.plan(self.set)
            check_exactly(plan, world.expected_destroys(self.restore, self.set), "delete")
            terraform.apply(plan)

    @classmethod
    def undo(cls, world: Eks, record: dict[str, Any]) -> None:
        """Plan with the baseline's values; apply it if it only creates what the fault destroyed."""
        for child in _children(world):
            if child.alive and not wait_for_child(child, CHILD_PATIENCE_S):
                raise RestoreError(
                    f"terraform (process {child.pid}) of this drill still runs and does not stop",
                    "wait for it, then `firstfault drill recover`; it is not killed, it would leave half a state",
                )
        with world.terraform() as terraform:
            plan = terraform.plan(record["restore"])
            if not plan.changes:
                return
            foreign = [
                each for each in plan.changes if each.address not in record["addresses"] or each.actions != "create"
            ]
            if foreign:
                listed = ", ".join(f"{each.actions} {each.address}" for each in foreign)
                owed = ", ".join(each.address for each in plan.changes if each not in foreign) or "nothing else"
                raise RestoreError(
                    f"the restoring plan would also {listed}: somebody else changed the configuration or the cluster "
                    f"meanwhile. Owed by the drill: create {owed}",
                    f"look at it in {terraform.root} and apply it there yourself",
                )
            terraform.apply(plan)


def check_exactly(plan: SavedPlan, expected: list[str], action: str) -> None:
    """Refuse a plan that is not exactly `action` on each expected address.

    Raises:
        UsageError: It is not; the message lists the difference.
    """
    wanted = {(address, action) for address in expected}
    found = {(change.address, change.actions) for change in plan.changes}
    if found == wanted:
        return
    more = [f"{actions} {address}" for address, actions in sorted(found - wanted)]
    less = [f"{actions} {address}" for address, actions in sorted(wanted - found)]
    words = [f"it would also {', '.join(more)}"] if more else []
    words += [f"it would not {', '.join(less)}"] if less else []
    raise UsageError(
        f"the plan is not the expected {len(expected)} changes ({plan.summary}): {'; '.join(words)}",
        "nothing was changed; a drill applies only what the configuration of its variables implies",
    )


class Ec2Rules(Injector, frozen=True, kw_only=True, tag="ec2-rules"):
    """Revokes exactly the rules that the toggles move, and authorizes them again. For clusters without Terraform.

    Attributes:
        set: The toggles of the topology.
    """

    set: dict[str, bool]

    def describe(self, world: Eks) -> Change:
        """List the rules and the calls."""
        change = world.describe_rules(self.set)
        steps = [
            f"ec2:RevokeSecurityGroup{direction.capitalize()} {group}: {rule}"
            for group, direction, rule, _ in world.rules_moved_by(self.set)
        ]
        return Change(summary=change.summary, rules=change.rules, steps=steps)

    def prepare(self, world: Eks) -> dict[str, Any]:
        """Record the permissions, and make sure by dry run that they may be given back."""
        moved = world.rules_moved_by(self.set)
        world.check_target(self.set)
        world.check_restorable()
        return {
            "rules": [
                {"group": group, "direction": direction, "permission": permission}
                for group, direction, _, permission in moved
            ]
        }

    def inject(self, world: Eks) -> None:
        """Revoke them, one call each."""
        for group, direction, _, permission in world.rules_moved_by(self.set):
            world.ec2.revoke(group, direction, [permission])

    @classmethod
    def undo(cls, world: Eks, record: dict[str, Any]) -> None:
        """Authorize what was recorded; what is there already is left alone."""
        for rule in record["rules"]:
            world.ec2.authorize(rule["group"], rule["direction"], [rule["permission"]])


class NetworkPolicy(Injector, frozen=True, kw_only=True, tag="network-policy"):
    """Denies all ingress to the drill's own Pods except DNS, by a NetworkPolicy. Touches no security group."""

    def describe(self, world: Eks) -> Change:
        """Name the object."""
        return Change(steps=[f"create NetworkPolicy {world.options.namespace}/{world.object_name}: no ingress but DNS"])

    def prepare(self, world: Eks) -> dict[str, Any]:
        """Record the object's path; it bears the run's label, so only ours can be deleted."""
        return {"path": world.path("networkpolicies", world.object_name)}

    def inject(self, world: Eks) -> None:
        """Create it."""
        dns = [{"protocol": protocol, "port": 53} for protocol in ("TCP", "UDP")]
        body = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": world.object_name},
            "spec": {
                "podSelector": {"matchLabels": world.pod_labels},
                "policyTypes": ["Ingress"],
                "ingress": [{"ports": dns}],
            },
        }
        world.cluster.create(world.path("networkpolicies"), body)

    @classmethod
    def undo(cls, world: Eks, record: dict[str, Any]) -> None:
        """Delete it."""
        world.cluster.delete(record["path"])
