"""The model of the security groups: the counts of the write-up, the union, the toggles, and the kernel's agreement."""

from __future__ import annotations

import pytest

from firstfault.drills.local import Local
from firstfault.drills.scenario import find_topology
from firstfault.model.securitygroups import GroupRule, SecurityGroup, allows, counts, plan_change

EKS = find_topology("eks-two-nodes")
AUX = {"enable_aux_sg_vpc_allow": False}
NODE = {"node_sg_enable_recommended_rules": False}
COMBINATIONS = [{}, AUX, NODE, {**AUX, **NODE}]


@pytest.mark.parametrize(
    ("toggles", "summary", "after"),
    [
        (AUX, "0 to add, 0 to change, 1 to destroy", (10, 1, 0, 1)),
        (NODE, "0 to add, 0 to change, 7 to destroy", (4, 0, 1, 1)),
        ({**AUX, **NODE}, "0 to add, 0 to change, 8 to destroy", (4, 0, 0, 1)),
    ],
)
def test_toggles_destroy_the_rules_of_the_write_up(toggles, summary, after):
    """One boolean moves seven rules, the other one; the counts before and after are those that were observed."""
    before = counts(EKS.groups_with({}))
    assert before == {"node": {"ingress": 10, "egress": 1}, "aux": {"ingress": 1, "egress": 1}}
    changed = EKS.groups_with(toggles)
    assert str(plan_change(EKS.groups_with({}), changed)) == summary
    found = counts(changed)
    sides = (found["node"]["ingress"], found["node"]["egress"], found["aux"]["ingress"], found["aux"]["egress"])
    assert sides == after


def test_plan_back_adds_the_same_rules():
    """Restoring is the same plan the other way round."""
    plan = plan_change(EKS.groups_with({**AUX, **NODE}), EKS.groups_with({}))
    assert str(plan) == "8 to add, 0 to change, 0 to destroy"


def test_two_of_the_eight_rules_carry_training():
    """The other six are side effects."""
    plan = plan_change(EKS.groups_with({}), EKS.groups_with({**AUX, **NODE}))
    roles = sorted((rule.role, group, rule.id) for group, rule in plan.destroy)
    assert roles[:2] == [("cuts training", "aux", "vpc-all"), ("cuts training", "node", "ephemeral")]
    assert {role for role, _, _ in roles[2:]} == {"side effect"}


def test_changed_rule_counts_as_replaced():
    """The same id with other ports is one to destroy and one to add."""
    old = [SecurityGroup(name="g", rules=[GroupRule(id="r", direction="ingress", ports=(1, 2), peer="self")])]
    new = [SecurityGroup(name="g", rules=[GroupRule(id="r", direction="ingress", ports=(1, 3), peer="self")])]
    assert str(plan_change(old, new)) == "1 to add, 0 to change, 1 to destroy"


@pytest.mark.parametrize(("toggles", "rules"), [({}, 2), (AUX, 1), (NODE, 1), ({**AUX, **NODE}, 0)])
def test_interface_obeys_the_union_of_its_groups(toggles, rules):
    """Either of the two rules alone lets a rank reach the store; only without both is it cut."""
    found = allows(
        EKS.groups_with(toggles),
        EKS.members(),
        direction="ingress",
        peer="192.168.10.12",
        protocol="tcp",
        port=29500,
    )
    assert len(found) == rules


@pytest.mark.netns
@pytest.mark.usefixtures("netns")
def test_kernel_agrees_with_the_model(state):
    """For every combination of toggles, every probed path is open exactly when the model says so."""
    world = Local(EKS, state=state, table="firstfault_model")
    world.open()
    try:
        for toggles in COMBINATIONS:
            groups = EKS.groups_with(toggles)
            world.set_groups(groups)
            assert world.snapshot().firewall == counts(groups)
            for probe in world.probe():
                attached = [group for group in groups if group.name in EKS.node(probe.target).groups]
                allowed = allows(
                    attached,
                    EKS.members(),
                    direction="ingress",
                    peer=EKS.node(probe.source).ip,
                    protocol=probe.protocol,
                    port=probe.port,
                )
                assert probe.reachable == bool(allowed), f"{probe.id} with {toggles}"
    finally:
        assert world.close() == []
