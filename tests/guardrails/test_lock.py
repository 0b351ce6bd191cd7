"""The lock refuses plans that cut training, and only those."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from click.testing import CliRunner

from firstfault.cli.guard import guard
from firstfault.errors import InputError
from firstfault.guardrails import Options, render
from firstfault.guardrails.lock import judge, read_plan

NODE, AUX, CLUSTER = "sg-node", "sg-aux", "sg-cluster"
WEBHOOKS = (4443, 6443, 8443, 9443, 10251)


def classic(
    address,
    actions,
    group=NODE,
    direction="ingress",
    protocol="tcp",
    ports=(1025, 65535),
    *,
    after=None,
    unknown=None,
    **peer,
):
    """A change of `aws_security_group_rule`."""
    values = {
        "type": direction, "protocol": protocol, "from_port": ports[0], "to_port": ports[1], "security_group_id": group,
        "cidr_blocks": None, "ipv6_cidr_blocks": None, "self": None, "source_security_group_id": None,
        "prefix_list_ids": None, **peer,
    }  # fmt: skip
    return change("aws_security_group_rule", address, actions, values, after, unknown)


def single(address, actions, group=AUX, direction="ingress", protocol="-1", ports=(None, None), **peer):
    """A change of `aws_vpc_security_group_ingress_rule` or `..._egress_rule`."""
    values = {"ip_protocol": protocol, "from_port": ports[0], "to_port": ports[1], "security_group_id": group, **peer}
    return change(f"aws_vpc_security_group_{direction}_rule", address, actions, values)


def change(kind, address, actions, values, after=None, unknown=None):
    creates, deletes = "create" in actions, "delete" in actions
    keeps = actions in (["no-op"], ["update"])
    return {
        "address": address, "type": kind, "name": address.rsplit(".", 1)[-1], "mode": "managed",
        "change": {
            "actions": actions,
            "before": values if deletes or keeps else None,
            "after": (after or values) if creates or keeps else None,
            "after_unknown": unknown or {},
        },
    }  # fmt: skip


def node(key, actions, **more):
    return classic(f'module.eks.aws_security_group_rule.node["{key}"]', actions, **more)


def seed(recommended=True, aux=True):
    """The plan of the write-up: two switches over eight rules."""
    kept = ["no-op"]
    one, two = (kept if recommended else ["delete"]), (kept if aux else ["delete"])
    return [
        node("ingress_self_ephemeral", one, self=True),
        *(
            node(f"ingress_cluster_{port}_webhook", one, ports=(port, port), source_security_group_id=CLUSTER)
            for port in WEBHOOKS
        ),
        node("egress_all", one, direction="egress", protocol="-1", ports=(0, 0), cidr_blocks=["0.0.0.0/0"]),
        node("ingress_cluster_443", kept, ports=(443, 443), source_security_group_id=CLUSTER),
        node("ingress_cluster_kubelet", kept, ports=(10250, 10250), source_security_group_id=CLUSTER),
        node("ingress_self_coredns_tcp", kept, ports=(53, 53), self=True),
        node("ingress_self_coredns_udp", kept, protocol="udp", ports=(53, 53), self=True),
        single("aws_vpc_security_group_ingress_rule.aux_vpc[0]", two, cidr_ipv4="192.168.0.0/16"),
        single("aws_vpc_security_group_egress_rule.aux_all", kept, direction="egress", cidr_ipv4="0.0.0.0/0"),
    ]


def plan(*changes, **more):
    return {"format_version": "1.2", "planned_values": {}, "resource_changes": list(changes), **more}


def verdict(tmp_path, *changes, strict=False, **more):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan(*changes, **more)))
    return judge(read_plan(path), strict=strict)


class TestSeed:
    """The accident of the write-up and its halves."""

    def test_both_switches_off_is_refused_and_names_both_cutting_rules(self, tmp_path):
        """Eight destroys: two cut the traffic, the egress is covered, five webhook ports are side effects."""
        report = verdict(tmp_path, *seed(recommended=False, aux=False))

        assert report.result == "refuse"
        cut = [loss for loss in report.losses if loss.outcome == "refuse"]
        assert {loss.group for loss in cut} == {NODE, AUX}
        assert 'module.eks.aws_security_group_rule.node["ingress_self_ephemeral"]' in cut[1].rules[0] + cut[0].rules[0]
        assert len(report.also_removed) == len(WEBHOOKS)

    @pytest.mark.parametrize(("recommended", "aux"), [(False, True), (True, False)])
    def test_either_rule_alone_keeps_training_alive(self, tmp_path, recommended, aux):
        """An interface obeys the union of its groups; the report says that one rule is left."""
        report = verdict(tmp_path, *seed(recommended=recommended, aux=aux))

        assert report.result == "pass"
        assert report.losses
        assert any("one rule from failing" in note for note in report.notes)

    def test_strict_refuses_the_loss_of_the_second_path_too(self, tmp_path):
        """For pipelines that do not want to live one rule from failing."""
        assert verdict(tmp_path, *seed(recommended=False), strict=True).result == "refuse"

    def test_no_change_and_the_way_back_pass(self, tmp_path):
        """Eight to add is the restore."""
        assert verdict(tmp_path, *seed()).result == "pass"
        restore = [{**c, "change": {**c["change"], "actions": ["create"], "before": None}} for c in seed()]
        assert verdict(tmp_path, *restore).result == "pass"

    def test_a_cover_that_is_shown_on_other_interfaces_does_not_count(self, tmp_path):
        """The launch template of the nodes does not carry the auxiliary group."""
        nodes = change(
            "aws_launch_template", "aws_launch_template.gpu", ["no-op"], {"vpc_security_group_ids": [NODE, "sg-x"]}
        )

        assert verdict(tmp_path, *seed(recommended=False), nodes).result == "refuse"


class TestReplacement:
    """A rule that comes back in another form is not lost."""

    def test_a_rename_is_no_loss(self, tmp_path):
        """Destroyed under one address, created under another."""
        report = verdict(
            tmp_path,
            node("old", ["delete"], self=True),
            single("aws_vpc_security_group_ingress_rule.new", ["create"], group=NODE, protocol="tcp", ports=(1025, 65535),
                   referenced_security_group_id=NODE),
        )  # fmt: skip

        assert report.result == "pass"
        assert report.losses == []

    def test_a_wider_rule_replaces_a_narrow_one(self, tmp_path):
        """All traffic from itself covers 1025-65535."""
        assert verdict(
            tmp_path, node("a", ["delete"], self=True), node("b", ["create"], protocol="-1", ports=(0, 0), self=True)
        ).result == "pass"  # fmt: skip

    def test_two_rules_may_cover_together_and_a_gap_is_a_loss(self, tmp_path):
        """1025-29499 and 29500-65535 meet; without port 29500 they do not."""
        old = node("a", ["delete"], self=True)
        low = node("b", ["create"], ports=(1025, 29499), self=True)

        assert verdict(tmp_path, old, low, node("c", ["create"], ports=(29500, 65535), self=True)).result == "pass"
        assert verdict(tmp_path, old, low, node("c", ["create"], ports=(29501, 65535), self=True)).result == "refuse"

    @pytest.mark.parametrize("actions", [["delete", "create"], ["create", "delete"]])
    def test_replace_actions_keep_the_rule(self, tmp_path, actions):
        """Destroyed and created again in the same apply."""
        assert verdict(tmp_path, node("a", actions, self=True)).result == "pass"

    def test_an_update_that_narrows_is_a_loss(self, tmp_path):
        """In place, no destroy in the plan's summary."""
        before = node("a", ["update"], self=True)
        before["change"]["after"] = {**before["change"]["before"], "from_port": 30000}

        assert verdict(tmp_path, before).result == "refuse"

    def test_another_protocol_or_another_source_is_no_replacement(self, tmp_path):
        """UDP, or the cluster's group instead of the nodes'."""
        old = node("a", ["delete"], self=True)

        assert verdict(tmp_path, old, node("b", ["create"], protocol="udp", self=True)).result == "refuse"
        assert verdict(tmp_path, old, node("b", ["create"], source_security_group_id=CLUSTER)).result == "refuse"

    def test_a_group_on_the_same_interfaces_is_a_source(self, tmp_path):
        """From the auxiliary group, which the plan shows beside the node group."""
        together = change("aws_launch_template", "t", ["no-op"], {"vpc_security_group_ids": [NODE, AUX]})

        assert verdict(
            tmp_path, together, node("a", ["delete"], self=True), node("b", ["create"], source_security_group_id=AUX)
        ).result == "pass"  # fmt: skip


class TestNetworks:
    """When a network stands for the nodes."""

    def test_the_vpcs_own_network_is_taken_from_the_plan(self, tmp_path):
        """A /16 that is not the VPC's does not cover it."""
        vpc = change("aws_vpc", "aws_vpc.main", ["no-op"], {"cidr_block": "10.0.0.0/16"})
        old = node("a", ["delete"], self=True)

        assert verdict(tmp_path, vpc, old, node("b", ["create"], cidr_blocks=["10.0.0.0/8"])).result == "pass"
        assert verdict(tmp_path, vpc, old, node("b", ["create"], cidr_blocks=["192.168.0.0/16"])).result == "refuse"

    def test_a_small_network_is_not_the_vpc(self, tmp_path):
        """One subnet of several."""
        assert verdict(
            tmp_path, node("a", ["delete"], self=True), node("b", ["create"], cidr_blocks=["192.168.1.0/24"])
        ).result == "refuse"  # fmt: skip

    def test_losing_one_subnets_rule_is_not_judged(self, tmp_path):
        """It never covered the nodes."""
        report = verdict(tmp_path, node("a", ["delete"], cidr_blocks=["192.168.1.0/24"]))

        assert report.result == "pass"
        assert len(report.also_removed) == 1


class TestUnknown:
    """What is known only after the apply is neither protection nor loss."""

    def test_a_replacement_in_a_group_that_does_not_exist_yet(self, tmp_path):
        """The new rule's group is unknown."""
        new = node("b", ["create"], self=True, group=None, unknown={"security_group_id": True})

        assert verdict(tmp_path, node("a", ["delete"], self=True), new).result == "unknown"

    def test_an_unknown_that_cannot_be_the_replacement_does_not_help(self, tmp_path):
        """A webhook port in a new group."""
        new = node("b", ["create"], ports=(9443, 9443), group=None, unknown={"security_group_id": True})

        assert verdict(tmp_path, node("a", ["delete"], self=True), new).result == "refuse"

    def test_a_network_that_is_known_later(self, tmp_path):
        """cidr_blocks comes from a resource that is created in the same apply."""
        new = node("b", ["create"], unknown={"cidr_blocks": True})

        assert verdict(tmp_path, node("a", ["delete"], self=True), new).result == "unknown"

    def test_a_replaced_group_keeps_its_rules_where_the_plan_shows_them(self, tmp_path):
        """Group and rule are replaced together; the rule's new group id is unknown, its address is the same."""
        rule = node("a", ["delete", "create"], self=True, unknown={"security_group_id": True})
        rule["change"]["after"] = {**rule["change"]["before"], "security_group_id": None}

        assert verdict(tmp_path, rule).result == "pass"

    @pytest.mark.parametrize("broken", [1, None, {}, {"address": "a.b", "change": {"actions": "delete"}}])
    def test_a_change_that_cannot_be_read_is_not_a_pass(self, tmp_path, broken):
        """What was not understood may be the loss."""
        assert verdict(tmp_path, *seed(), broken).result == "unknown"

    def test_an_incomplete_plan_is_not_a_pass(self, tmp_path):
        """Terraform says that it has errors."""
        assert verdict(tmp_path, *seed(), errored=True).result == "unknown"


BLOCK = {
    "protocol": "tcp",
    "from_port": 1025,
    "to_port": 65535,
    "self": True,
    "cidr_blocks": [],
    "security_groups": [],
}
CONFIGURED = {"root_module": {"resources": [
    {"type": "aws_security_group", "name": "node", "expressions": {"ingress": {}}}]}}  # fmt: skip


class TestInline:
    """Rules in blocks of the group itself."""

    def test_a_block_that_is_removed_is_a_loss(self, tmp_path):
        """The group is updated, nothing is destroyed."""
        group = change(
            "aws_security_group", "aws_security_group.node", ["update"], {"id": NODE, "ingress": [BLOCK]},
            after={"id": NODE, "ingress": []},
        )  # fmt: skip

        assert verdict(tmp_path, group, configuration=CONFIGURED).result == "refuse"

    def test_the_state_of_a_group_does_not_stand_in_for_a_rule_that_is_destroyed(self, tmp_path):
        """The group's own state lists the rules of separate resources too, and its change is a no-op."""
        group = change("aws_security_group", "aws_security_group.node", ["no-op"], {"id": NODE, "ingress": [BLOCK]})

        assert verdict(tmp_path, group, node("a", ["delete"], self=True)).result == "refuse"

    def test_a_rule_made_outside_of_terraform_stays(self, tmp_path):
        """It is in the group's state and in no resource of the plan."""
        outside = {**BLOCK, "from_port": 0, "to_port": 0, "protocol": "-1"}
        group = change(
            "aws_security_group", "aws_security_group.node", ["no-op"], {"id": NODE, "ingress": [BLOCK, outside]}
        )

        assert verdict(tmp_path, group, node("a", ["delete"], self=True)).result == "pass"


class TestOtherNeeds:
    """What training needs beside the ephemeral ports."""

    def test_egress_lost_in_every_group_is_refused(self, tmp_path):
        """In the write-up the auxiliary group's egress makes up for the node group's."""
        lost = [c for c in seed(recommended=False) if "aux_all" not in c["address"]]
        lost.append(
            single("aws_vpc_security_group_egress_rule.aux_all", ["delete"], direction="egress", cidr_ipv4="0.0.0.0/0")
        )

        report = verdict(tmp_path, *lost)

        assert report.result == "refuse"
        assert any("may send" in loss.need for loss in report.losses if loss.outcome == "refuse")

    def test_dns_between_nodes(self, tmp_path):
        """Without it the master's name does not resolve."""
        assert verdict(tmp_path, node("dns", ["delete"], protocol="udp", ports=(53, 53), self=True)).result == "refuse"

    @pytest.mark.parametrize(("efa", "expected"), [(True, "refuse"), (False, "pass")])
    def test_efa_needs_all_traffic_of_the_group_with_itself(self, tmp_path, efa, expected):
        """TCP 1025-65535 is enough for sockets and cuts EFA."""
        interfaces = [{"interface_type": "efa"}] if efa else [{}]
        report = verdict(
            tmp_path,
            change("aws_launch_template", "t", ["no-op"], {"network_interfaces": interfaces}),
            node("all", ["delete"], protocol="-1", ports=(0, 0), self=True),
            node("tcp", ["create"], self=True),
            node("dns", ["create"], protocol="udp", ports=(53, 53), self=True),
        )

        assert report.result == expected

    def test_tearing_the_cluster_down_is_no_accident(self, tmp_path):
        """Nothing is left that would need the rules; with one node group left it is."""
        gone = [{**c, "change": {**c["change"], "actions": ["delete"], "after": None}} for c in seed()]
        nodes = change("aws_eks_node_group", "g", ["delete"], {})

        assert verdict(tmp_path, *gone, nodes).result == "pass"
        assert verdict(tmp_path, *gone, nodes, change("aws_eks_node_group", "h", ["no-op"], {})).result == "refuse"


class TestCommandLine:
    """Exit codes of the contract, for pipelines."""

    def run(self, tmp_path, text, *args):
        path = tmp_path / "plan.json"
        path.write_text(text)
        return CliRunner().invoke(guard, ["lock", str(path), *args], standalone_mode=False)

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            (seed(), 0),
            (seed(recommended=False, aux=False), 1),
            (
                [
                    node("a", ["delete"], self=True),
                    node("b", ["create"], self=True, group=None, unknown={"security_group_id": True}),
                ],
                3,
            ),
        ],
        ids=["pass", "refuse", "unknown"],
    )
    def test_the_result_is_the_exit_code(self, tmp_path, changes, code):
        """0 pass, 1 refuse, 3 could not tell."""
        done = self.run(tmp_path, json.dumps(plan(*changes)), "--format", "json")

        assert done.return_value == code
        assert json.loads(done.output)["result"] == {0: "pass", 1: "refuse", 3: "unknown"}[code]

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "not json",
            "[]",
            "{}",
            '{"resource_changes": 1, "planned_values": {}}',
            '{"values": {"root_module": {}}}',
            "[" * 100_000,
        ],
        ids=["empty", "text", "list", "object", "wrong type", "a state", "deep"],
    )
    def test_what_is_no_plan_is_an_input_error(self, tmp_path, text):
        """Exit 2 and what to do, no traceback."""
        done = self.run(tmp_path, text)

        assert isinstance(done.exception, InputError)
        assert "terraform show -json" in str(done.exception)

    def test_the_text_names_the_rule_and_what_to_do(self, tmp_path):
        """A person in a pull request reads it."""
        done = self.run(tmp_path, json.dumps(plan(*seed(recommended=False, aux=False))))

        assert "REFUSED" in done.output
        assert 'node["ingress_self_ephemeral"]: ingress tcp 1025-65535 from itself' in done.output

    def test_odd_entries_end_in_could_not_tell(self, tmp_path):
        """Null changes, missing fields and foreign types do not crash it, and are no pass: one of them may be the loss."""
        odd = [
            None,
            1,
            {},
            {"address": "x"},
            {"address": "x", "change": {"actions": ["no-op"], "before": 3, "after": []}},
        ]
        odd.append({"address": "y", "type": "aws_security_group_rule", "change": {"actions": ["create"], "after": {}}})

        assert self.run(tmp_path, json.dumps(plan(*odd))).return_value == 3


@pytest.mark.terraform
@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
def test_a_plan_as_terraform_writes_it_is_read(tmp_path):
    """The real program's JSON, with resources that need no provider: nothing in it concerns security groups."""
    (tmp_path / "main.tf").write_text(
        'resource "terraform_data" "x" {\n  for_each = toset(["a", "b"])\n  input = each.key\n}\n'
    )
    environment = {**os.environ, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}

    def terraform(*arguments):
        command = ["terraform", f"-chdir={tmp_path}", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout

    terraform("init", "-input=false")
    terraform("plan", "-input=false", "-out=tfplan")
    (tmp_path / "plan.json").write_text(terraform("show", "-json", "tfplan"))

    report = judge(read_plan(tmp_path / "plan.json"))

    assert report.result == "pass"
    assert report.losses == []


@pytest.mark.terraform
@pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")
@pytest.mark.parametrize(
    ("values", "accepted"),
    [
        ((), True),
        (("node_sg_enable_recommended_rules=false",), False),
        (("enable_aux_sg_vpc_allow=false",), False),
        (("node_sg_enable_recommended_rules=false", "drill_approved=true"), True),
    ],
)
def test_the_rendered_variables_refuse_the_value_that_cuts_training(tmp_path, values, accepted):
    """In the real terraform, wherever the value comes from; a drill says so in the same plan."""
    files = render(Options(), ["plan-lock"]).files
    (tmp_path / "variables.tf").write_text(files["terraform/variables-lock.tf"])
    environment = {**os.environ, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}
    command = ["terraform", f"-chdir={tmp_path}", "plan", "-input=false", *(f"-var={value}" for value in values)]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    assert (done.returncode == 0) is accepted, done.stderr
    assert accepted or "drill_approved=true" in done.stderr
