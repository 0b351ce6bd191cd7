"""The deny of B2, evaluated: who may still edit a guarded security group, and by which way round."""

from __future__ import annotations

import json

import pytest

from firstfault.checks import PolicySet, Request, decide, parse_policy
from firstfault.guardrails import Options, render

ACCOUNT = "123456789012"
TERRAFORM = f"arn:aws:iam::{ACCOUNT}:role/terraform"
CONTROLLER = f"arn:aws:iam::{ACCOUNT}:role/aws-load-balancer-controller"
EMERGENCY = f"arn:aws:iam::{ACCOUNT}:role/break-glass"
NODE = f"arn:aws:iam::{ACCOUNT}:role/gpu-eks-node-group-2026"
ENGINEER = f"arn:aws:iam::{ACCOUNT}:role/engineer"
ADMIN = (
    f"arn:aws:iam::{ACCOUNT}:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_AdministratorAccess_0123456789abcdef"
)
LOOKALIKE = f"arn:aws:iam::{ACCOUNT}:role/my-terraform"
GROUP = f"arn:aws:ec2:ap-northeast-2:{ACCOUNT}:security-group/sg-0123456789abcdef0"
INTERFACE = f"arn:aws:ec2:ap-northeast-2:{ACCOUNT}:network-interface/eni-0123456789abcdef0"
INSTANCE = f"arn:aws:ec2:ap-northeast-2:{ACCOUNT}:instance/i-0123456789abcdef0"
GUARDED = {"aws:ResourceTag/firstfault/guarded": ["true"]}
OF_CLUSTER = {"aws:ResourceTag/kubernetes.io/cluster/gpu": ["owned"]}
EDITS = (
    "AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress", "RevokeSecurityGroupIngress",
    "RevokeSecurityGroupEgress", "ModifySecurityGroupRules", "DeleteSecurityGroup",
)  # fmt: skip


@pytest.fixture(scope="module")
def policies():
    """The rendered policy as an SCP over an administrator's rights."""
    files = render(Options(cluster="gpu"), ["sg-guard"]).files
    everything = parse_policy(
        {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    )
    deny = parse_policy(json.loads(files["terraform/sg-guard.json"]))
    return PolicySet(identity=[everything], service_control=[[everything, deny]])


def allowed(policies, principal, action, resource, context=None):
    decision = decide(Request(principal=principal, action=action, resource=resource, context=context or {}), policies)
    assert decision.certain
    return decision.effect == "allow"


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize(
    ("principal", "expected"),
    [(ENGINEER, False), (ADMIN, False), (LOOKALIKE, False), (NODE, False), (TERRAFORM, True), (CONTROLLER, True), (EMERGENCY, True)],
    ids=lambda value: str(value).rsplit("/", 1)[-1],
)  # fmt: skip
def test_who_may_edit_a_guarded_group(policies, principal, expected, edit):
    """Terraform, the load-balancer controller and the emergency role; nobody else, administrators included."""
    assert allowed(policies, principal, f"ec2:{edit}", GROUP, GUARDED) is expected


@pytest.mark.parametrize(
    "context", [{}, {"aws:ResourceTag/firstfault/guarded": ["false"]}, {"aws:ResourceTag/Name": ["web"]}]
)
@pytest.mark.parametrize("edit", EDITS)
def test_groups_without_the_tag_are_not_touched(policies, context, edit):
    """Other teams keep editing theirs."""
    assert allowed(policies, ENGINEER, f"ec2:{edit}", GROUP, context)


@pytest.mark.parametrize(
    ("action", "resource", "context"),
    [
        ("ec2:DeleteTags", GROUP, {**GUARDED, "aws:TagKeys": ["firstfault/guarded"]}),
        ("ec2:DeleteTags", GROUP, {**GUARDED, "aws:TagKeys": ["firstfault/guarded", "other"]}),
        ("ec2:DeleteTags", GROUP, GUARDED),  # without a list all tags go
        ("ec2:CreateTags", GROUP, {**GUARDED, "aws:TagKeys": ["firstfault/guarded"], "aws:RequestTag/firstfault/guarded": ["no"]}),
        ("ec2:ModifyNetworkInterfaceAttribute", INTERFACE, {}),
        ("ec2:ModifyInstanceAttribute", INSTANCE, OF_CLUSTER),
        ("iam:UpdateAssumeRolePolicy", TERRAFORM, {}),
        ("iam:PutRolePolicy", CONTROLLER, {}),
    ],
    ids=["one tag", "two tags", "all tags", "overwrite", "interface", "instance", "trust of Terraform's role", "controller's rights"],
)  # fmt: skip
@pytest.mark.parametrize("principal", [ENGINEER, ADMIN], ids=["engineer", "admin"])
def test_the_ways_round_are_closed(policies, principal, action, resource, context):
    """And open for Terraform."""
    assert not allowed(policies, principal, action, resource, context)
    assert allowed(policies, TERRAFORM, action, resource, context)


def test_what_must_go_on_working(policies):
    """The CNI attaches interfaces, services use their own roles, other instances and tags are free."""
    service = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/elasticloadbalancing.amazonaws.com/AWSServiceRoleForElasticLoadBalancing"

    assert allowed(policies, NODE, "ec2:ModifyNetworkInterfaceAttribute", INTERFACE)
    assert allowed(policies, service, "ec2:ModifyNetworkInterfaceAttribute", INTERFACE)
    assert allowed(policies, ENGINEER, "ec2:ModifyInstanceAttribute", INSTANCE)
    assert allowed(policies, ENGINEER, "ec2:CreateTags", INSTANCE, {"aws:TagKeys": ["Name"]})
    assert allowed(policies, ENGINEER, "ec2:DescribeSecurityGroups", "*")
    assert allowed(policies, ENGINEER, "iam:PutRolePolicy", ENGINEER)


def test_the_policy_fits_into_an_scp(policies):
    """5,120 characters without white space at the most."""
    text = render(Options(cluster="gpu-training-cluster-ap-northeast-2"), ["sg-guard"]).files["terraform/sg-guard.json"]

    assert len(json.dumps(json.loads(text), separators=(",", ":"))) < 5120
