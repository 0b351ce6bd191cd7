"""Security groups, Terraform, nvidia-smi, torchrun's error file, a model's configuration."""

from __future__ import annotations

import json

import pytest

from scan.reading import joint, read, texts


def group(identity, ingress, egress, name="node"):
    return {
        "GroupId": identity,
        "GroupName": name,
        "OwnerId": "123456789012",
        "IpPermissions": ingress,
        "IpPermissionsEgress": egress,
    }


SELF_TCP = {
    "IpProtocol": "tcp",
    "FromPort": 1025,
    "ToPort": 65535,
    "UserIdGroupPairs": [{"GroupId": "sg-1", "UserId": "123456789012"}],
}
KUBELET = {
    "IpProtocol": "tcp",
    "FromPort": 10250,
    "ToPort": 10250,
    "UserIdGroupPairs": [{"GroupId": "sg-9"}],
    "IpRanges": [{"CidrIp": "10.0.0.0/16"}],
}
ALL = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}], "Ipv6Ranges": [{"CidrIpv6": "::/0"}]}


def test_security_groups_are_counted_by_rule():
    """A permission with two sources is two rules, as the console counts them."""
    kind, lines = read(json.dumps({"SecurityGroups": [group("sg-1", [SELF_TCP, KUBELET], [ALL])]}, indent=2))
    assert kind == "security-groups"
    assert [line.text for line in lines] == [
        "securitygroup sg-1 node ingress=3 egress=2",
        "securitygroup-rule sg-1 egress all all 0.0.0.0/0",
        "securitygroup-rule sg-1 egress all all ::/0",
        "securitygroup-rule sg-1 ingress tcp 1025-65535 self",
        "securitygroup-rule sg-1 ingress tcp 10250 10.0.0.0/16",
        "securitygroup-rule sg-1 ingress tcp 10250 sg-9",
    ]


def test_rules_listed_one_by_one():
    """`describe-security-group-rules` tells the same in another shape."""
    rules = [
        {"GroupId": "sg-1", "IsEgress": False, "IpProtocol": "tcp", "FromPort": 1025, "ToPort": 65535, "ReferencedGroupInfo": {"GroupId": "sg-1"}},
        {"GroupId": "sg-1", "IsEgress": True, "IpProtocol": "-1", "FromPort": -1, "ToPort": -1, "CidrIpv4": "0.0.0.0/0"},
    ]  # fmt: skip
    assert texts(json.dumps({"SecurityGroupRules": rules})) == [
        "securitygroup sg-1 - ingress=1 egress=1",
        "securitygroup-rule sg-1 egress all all 0.0.0.0/0",
        "securitygroup-rule sg-1 ingress tcp 1025-65535 self",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("sg-baseline.json", "sg-blocked.json"),
        ("z-before.json", "a-after.json"),
        ("2024-05-01.json", "2024-05-02.json"),
    ],
)
def test_two_snapshots_become_a_difference(before, after):
    """Names say which snapshot came first; otherwise their order does. The later file shows what is gone."""
    old = json.dumps({"SecurityGroups": [group("sg-1", [SELF_TCP, KUBELET], [ALL]), group("sg-2", [ALL], [])]})
    new = json.dumps({"SecurityGroups": [group("sg-1", [KUBELET], []), group("sg-3", [], [])]})
    expected = [
        (after, "securitygroup-diff sg-1 removed egress all all 0.0.0.0/0"),
        (after, "securitygroup-diff sg-1 removed egress all all ::/0"),
        (after, "securitygroup-diff sg-1 removed ingress tcp 1025-65535 self"),
    ]
    assert joint({before: old, after: new}) == expected
    assert joint({after: new, before: old}) == expected


def test_three_snapshots_are_compared_in_turn():
    """Baseline, blocked, restored: removed, then added again."""
    old = json.dumps({"SecurityGroups": [group("sg-1", [SELF_TCP], [])]})
    new = json.dumps({"SecurityGroups": [group("sg-1", [], [])]})
    rule = "ingress tcp 1025-65535 self"
    assert joint({"restored.json": old, "blocked.json": new, "baseline.json": old}) == [
        ("blocked.json", f"securitygroup-diff sg-1 removed {rule}"),
        ("restored.json", f"securitygroup-diff sg-1 added {rule}"),
    ]


PLAN_TEXT = """
Terraform used the selected providers to generate the following execution
plan. Resource actions are indicated with the following symbols:
  \x1b[31m-\x1b[0m destroy

Terraform will perform the following actions:

\x1b[1m  # module.eks.aws_security_group_rule.node["ingress_self"]\x1b[0m will be \x1b[1m\x1b[31mdestroyed\x1b[0m
  # (because key ["ingress_self"] is not in for_each map)
  # aws_launch_template.gpu must be replaced
  # aws_instance.a is tainted, so must be replaced

\x1b[1mPlan:\x1b[0m 0 to add, 0 to change, 8 to destroy.
"""


def test_terraform_plan_text():
    """Colours or not, every change and the summary are facts."""
    kind, lines = read(PLAN_TEXT)
    found = [line.text for line in lines]
    assert kind == "terraform-plan"
    for fact in (
        'terraform-plan module.eks.aws_security_group_rule.node["ingress_self"] actions=delete',
        "terraform-plan aws_launch_template.gpu actions=delete,create",
        "terraform-plan aws_instance.a actions=delete,create",
        "terraform-plan summary add=0 change=0 destroy=8",
        "Plan: 0 to add, 0 to change, 8 to destroy.",
    ):
        assert found.count(fact) == 1, fact
    assert "terraform-plan summary add=0 change=0 destroy=0" in texts(
        "No changes. Your infrastructure matches the configuration.\n"
    )


def test_terraform_plan_json():
    """`terraform show -json`: changes with the rule they are about, drift, switches; no other value comes out."""
    plan = {
        "format_version": "1.2",
        "terraform_version": "1.11.0",
        "variables": {"enable_aux_sg_vpc_allow": {"value": False}, "db_password": {"value": "hunter2hunter2"}},
        "resource_changes": [
            {"address": 'a.node["self"]', "type": "aws_security_group_rule", "change": {"actions": ["delete"], "before": {"type": "ingress", "protocol": "tcp", "from_port": 1025, "to_port": 65535, "self": True}}},
            {"address": "a.aux", "type": "aws_vpc_security_group_ingress_rule", "change": {"actions": ["create"], "before": None, "after": {"ip_protocol": "-1", "cidr_ipv4": "10.0.0.0/16"}}},
            {"address": "a.same", "type": "x", "change": {"actions": ["no-op"]}},
            {"address": "a.lt", "type": "x", "change": {"actions": ["delete", "create"], "before": {"password": "hunter2hunter2"}}},
        ],
        "resource_drift": [{"address": "a.sg", "change": {"actions": ["update"]}}],
    }  # fmt: skip
    kind, lines = read(json.dumps(plan))
    assert kind == "terraform-plan"
    assert [line.text for line in lines] == [
        'terraform-plan a.node["self"] actions=delete rule=ingress tcp 1025-65535 self',
        "terraform-plan a.aux actions=create rule=ingress all all 10.0.0.0/16",
        "terraform-plan a.lt actions=delete,create",
        "terraform-drift a.sg actions=update",
        "terraform-variable enable_aux_sg_vpc_allow=false",
        "terraform-plan summary add=2 change=0 destroy=2",
    ]


NVIDIA_SMI_Q = """
==============NVSMI LOG==============

Timestamp                                 : Thu May  2 10:00:00 2024
Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    GPU Reset Status
        Reset Required                    : Yes
        Drain and Reset Recommended       : N/A
    GPU Recovery Action                   : Reset
    MIG Mode
        Current                           : Disabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 1
            SRAM Uncorrectable SEC-DED    : 2
            DRAM Correctable              : 4
            DRAM Uncorrectable            : 3
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 7
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 2
        Pending                           : Yes
        Remapping Failure Occurred        : No
    Fabric
        State                             : In Progress
        Status                            : N/A
    Clocks Event Reasons
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Active
"""


def test_nvidia_smi_q():
    """Counters are summed over memories and error kinds; states come out one fact each, at their line."""
    kind, lines = read(NVIDIA_SMI_Q)
    facts = {line.text: line.line for line in lines if line.text.startswith("gpu ")}
    assert kind == "nvidia-smi-q"
    assert list(facts) == [
        "gpu 00000000:07:00.0 product=NVIDIA-A100-SXM4-80GB",
        "gpu 00000000:07:00.0 ecc volatile.uncorrectable=6 volatile.correctable=4 aggregate.uncorrectable=7 aggregate.correctable=0",
        "gpu 00000000:07:00.0 remapped-rows correctable=0 uncorrectable=2 pending=Yes failure=No",
        "gpu 00000000:07:00.0 recovery-action=Reset",
        "gpu 00000000:07:00.0 reset required=Yes",
        "gpu 00000000:07:00.0 fabric state=In-Progress",
        "gpu 00000000:07:00.0 mig current=Disabled pending=Enabled",
        "gpu 00000000:07:00.0 slowdown hw=Not-Active hw-thermal=Active",
    ]
    assert (
        NVIDIA_SMI_Q.split("\n")[facts["gpu 00000000:07:00.0 recovery-action=Reset"] - 1]
        .strip()
        .startswith("GPU Recovery")
    )


@pytest.mark.parametrize(
    "value",
    [
        {"message": {"message": "ValueError: bad", "extraInfo": {"py_callstack": "Traceback (most recent call last):\n  File x\nValueError: bad", "timestamp": "1714564800"}}},
        {"message": "ValueError: bad", "extraInfo": {"py_callstack": "Traceback (most recent call last):\n  File x\nValueError: bad"}, "timestamp": 1714564800},
    ],
)  # fmt: skip
def test_torchrun_error_files(value):
    """Both shapes: the error with rank and time, then the traceback as it was printed."""
    kind, lines = read(json.dumps(value), "logs/none_abc/attempt_0/3/error.json")
    assert kind == "torchrun-error"
    assert [line.text for line in lines] == [
        "torchrun-error rank=3 time=1714564800 exitcode=1 message=ValueError: bad",
        "Traceback (most recent call last):",
        "  File x",
        "ValueError: bad",
    ]
    assert {line.time for line in lines} == {1714564800.0}


def test_model_config():
    """The numbers of a `config.json` that decide about the length of a context."""
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "max_position_embeddings": 40960,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "rope_scaling": None,
    }
    kind, (line,) = read(json.dumps(config, indent=2))
    assert kind == "model-config"
    assert (
        line.text
        == "model-config type=qwen3 max_position_embeddings=40960 num_hidden_layers=36 num_attention_heads=32 "
        "num_key_value_heads=8 head_dim=128"
    )
    assert line.line == 6
