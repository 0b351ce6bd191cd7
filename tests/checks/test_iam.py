"""The IAM evaluator against a truth table of AWS's documented semantics."""

from __future__ import annotations

import pytest

from firstfault.checks.iam import PolicySet, Request, decide, parse_policy
from firstfault.checks.iam.conditions import conditions_hold
from firstfault.errors import InputError

ROLE = "arn:aws:iam::111122223333:role/dev"
GROUP = "arn:aws:ec2:us-east-1:111122223333:security-group/sg-0abc"
REVOKE = "ec2:RevokeSecurityGroupIngress"


def policy(*statements, version="2012-10-17"):
    return parse_policy({"Version": version, "Statement": list(statements)}, "p")


def allow(**fields):
    return {"Effect": "Allow", "Action": "*", "Resource": "*"} | fields


def deny(**fields):
    return {"Effect": "Deny", "Action": "*", "Resource": "*"} | fields


def request(**fields):
    return Request(**{"principal": ROLE, "action": REVOKE, "resource": GROUP} | fields)


ADMIN = policy(allow())

# operator, policy values, request values (None: the key is absent), expected
OPERATORS = [
    ("StringEquals", ["a"], ["a"], True),
    ("StringEquals", ["a"], ["A"], False),
    ("StringEquals", ["a", "b"], ["b"], True),
    ("StringEquals", ["a*"], ["ab"], False),
    ("StringEquals", ["a"], None, False),
    ("StringEqualsIgnoreCase", ["a"], ["A"], True),
    ("StringNotEquals", ["a"], ["b"], True),
    ("StringNotEquals", ["a", "b"], ["b"], False),
    ("StringNotEquals", ["a"], None, True),
    ("StringNotEquals", ["a*"], ["ab"], True),
    ("StringNotEqualsIgnoreCase", ["a"], ["A"], False),
    ("StringLike", ["a*"], ["abc"], True),
    ("StringLike", ["a?c"], ["abc"], True),
    ("StringLike", ["a?"], ["a"], False),
    ("StringLike", ["a*"], None, False),
    ("StringNotLike", ["a*"], ["abc"], False),
    ("StringNotLike", ["a*"], None, True),
    ("StringEqualsIfExists", ["a"], None, True),
    ("StringEqualsIfExists", ["a"], ["b"], False),
    ("StringLikeIfExists", ["a*"], None, True),
    ("StringNotEqualsIfExists", ["a"], None, True),
    ("StringNotEqualsIfExists", ["a"], ["a"], False),
    ("Bool", ["true"], ["true"], True),
    ("Bool", ["true"], ["false"], False),
    ("Bool", ["true"], None, False),
    ("Bool", ["false"], None, False),
    ("BoolIfExists", ["true"], None, True),
    ("Null", ["true"], None, True),
    ("Null", ["true"], ["x"], False),
    ("Null", ["false"], ["x"], True),
    ("Null", ["false"], None, False),
    ("NumericLessThan", ["10"], ["9"], True),
    ("NumericLessThan", ["10"], ["10"], False),
    ("NumericGreaterThanEquals", ["10"], ["10"], True),
    ("NumericEquals", ["10"], ["x"], False),
    ("NumericNotEquals", ["10"], ["11"], True),
    ("DateLessThan", ["2026-01-01T00:00:00Z"], ["2025-12-31T23:59:59Z"], True),
    ("DateGreaterThan", ["2026-01-01T00:00:00Z"], ["2025-12-31T23:59:59Z"], False),
    ("IpAddress", ["10.0.0.0/8"], ["10.1.2.3"], True),
    ("IpAddress", ["10.0.0.0/8"], ["11.1.2.3"], False),
    ("NotIpAddress", ["10.0.0.0/8"], ["11.1.2.3"], True),
    ("NotIpAddress", ["10.0.0.0/8"], None, True),
    ("ArnLike", ["arn:aws:iam::*:role/tf-*"], ["arn:aws:iam::111122223333:role/tf-prod"], True),
    ("ArnLike", ["arn:aws:iam::*:role/tf"], ["arn:aws:iam::1:x:role/tf"], False),
    ("ArnEquals", ["arn:aws:iam::*:role/tf"], ["arn:aws:iam::111122223333:role/tf"], True),
    ("ArnNotLike", ["arn:aws:iam::*:role/tf"], ["arn:aws:iam::111122223333:role/dev"], True),
    ("ArnNotLike", ["arn:aws:iam::*:role/tf"], ["arn:aws:iam::111122223333:role/tf"], False),
    ("ArnNotEquals", ["arn:aws:iam::*:role/tf"], None, True),
    ("ForAllValues:StringEquals", ["a", "b"], ["a"], True),
    ("ForAllValues:StringEquals", ["a", "b"], ["a", "c"], False),
    ("ForAllValues:StringEquals", ["a"], None, True),
    ("ForAllValues:StringLike", ["a*"], ["ab", "ac"], True),
    ("ForAnyValue:StringEquals", ["a", "b"], ["c", "a"], True),
    ("ForAnyValue:StringEquals", ["a"], ["c"], False),
    ("ForAnyValue:StringEquals", ["a"], None, False),
    ("ForAnyValue:StringNotEquals", ["a"], ["a", "b"], True),
    ("ForAnyValue:StringNotEquals", ["a"], ["a"], False),
    ("ForAnyValue:StringNotEquals", ["a"], None, False),
    ("ForAllValues:StringNotEquals", ["a"], ["b", "c"], True),
    ("ForAllValues:StringNotEquals", ["a"], ["a", "c"], False),
    ("ForAllValues:StringEqualsIfExists", ["a"], None, True),
    ("StringEquals", ["${aws:PrincipalTag/team}"], ["ml"], True),
    ("StringEquals", ["${aws:PrincipalTag/none}"], ["ml"], False),
    ("StringEquals", ["${aws:PrincipalTag/none, 'ml'}"], ["ml"], True),
    ("StringLike", ["a${*}"], ["a*"], True),
    ("StringLike", ["a${*}"], ["ab"], False),
]


@pytest.mark.parametrize(("operator", "wanted", "given", "expected"), OPERATORS)
def test_condition_operators(operator, wanted, given, expected):
    """One operator, one key."""
    context = {"aws:principaltag/team": ["ml"]} | ({"aws:key": given} if given is not None else {})
    assert conditions_hold({operator: {"aws:Key": wanted}}, context, lambda _key: False) is expected


def test_operators_and_keys_are_all_required():
    """Several operators and several keys: all of them must hold."""
    context = {"a": ["1"], "b": ["2"]}
    known = {"StringEquals": {"a": ["1"], "b": ["2"]}}
    assert conditions_hold(known, context, lambda _key: False) is True
    assert conditions_hold(known | {"StringLike": {"a": ["x"]}}, context, lambda _key: False) is False


def test_unknown_keys_give_maybe_unless_something_else_decides():
    """A key that may have any value is neither true nor false; another key can still decide."""
    wanted = {"StringEquals": {"aws:SourceIp": ["x"], "aws:known": ["a"]}}
    assert conditions_hold(wanted, {"aws:known": ["a"]}, lambda _key: True) is None
    assert conditions_hold(wanted, {"aws:known": ["b"]}, lambda _key: True) is False
    assert conditions_hold({"Null": {"aws:x": ["true"]}}, {}, lambda _key: True) is None


DECISIONS = [
    ("nothing allows", PolicySet(), "implicit deny"),
    ("identity allows", PolicySet(identity=[ADMIN]), "allow"),
    ("explicit deny beats allow", PolicySet(identity=[ADMIN, policy(deny(Action="ec2:Revoke*"))]), "explicit deny"),
    ("deny of another action", PolicySet(identity=[ADMIN, policy(deny(Action="ec2:Authorize*"))]), "allow"),
    ("deny with NotAction", PolicySet(identity=[ADMIN, policy(deny(Action=[], NotAction="iam:*"))]), "explicit deny"),
    ("NotAction names it", PolicySet(identity=[policy(allow(Action=[], NotAction=["ec2:*"]))]), "implicit deny"),
    ("action ignores case", PolicySet(identity=[policy(allow(Action="EC2:revokesecuritygroup*"))]), "allow"),
    ("other resource", PolicySet(identity=[policy(allow(Resource="arn:aws:ec2:*:*:instance/*"))]), "implicit deny"),
    ("NotResource", PolicySet(identity=[policy(allow(Resource=[], NotResource=GROUP))]), "implicit deny"),
    (
        "SCP without allow",
        PolicySet(identity=[ADMIN], service_control=[[policy(allow(Action="s3:*"))]]),
        "implicit deny",
    ),
    ("every SCP level must allow", PolicySet(identity=[ADMIN], service_control=[[ADMIN], []]), "implicit deny"),
    ("SCP allows but identity does not", PolicySet(service_control=[[ADMIN]]), "implicit deny"),
    ("SCP deny", PolicySet(identity=[ADMIN], service_control=[[ADMIN, policy(deny(Action=REVOKE))]]), "explicit deny"),
    ("boundary without allow", PolicySet(identity=[ADMIN], boundary=policy(allow(Action="s3:*"))), "implicit deny"),
    ("boundary allows", PolicySet(identity=[ADMIN], boundary=policy(allow(Action="ec2:*"))), "allow"),
    ("boundary grants nothing", PolicySet(boundary=ADMIN), "implicit deny"),
    ("boundary denies", PolicySet(identity=[ADMIN], boundary=policy(allow(), deny(Action="ec2:*"))), "explicit deny"),
    ("session policy limits", PolicySet(identity=[ADMIN], session=policy(allow(Action="s3:*"))), "implicit deny"),
    ("resource policy allows", PolicySet(resource=[policy(allow(Principal={"AWS": ROLE}))]), "allow"),
    ("resource policy of another", PolicySet(resource=[policy(allow(Principal={"AWS": ROLE + "x"}))]), "implicit deny"),
    ("principal is the account", PolicySet(resource=[policy(allow(Principal={"AWS": "111122223333"}))]), "allow"),
    ("NotPrincipal spares", PolicySet(identity=[ADMIN], resource=[policy(deny(NotPrincipal={"AWS": ROLE}))]), "allow"),
]


@pytest.mark.parametrize(("policies", "effect"), [item[1:] for item in DECISIONS], ids=[item[0] for item in DECISIONS])
def test_decisions(policies, effect):
    """Layers: deny first, then every limiting layer, then what grants."""
    decision = decide(request(), policies)
    assert decision.effect == effect
    assert decision.certain


def test_deny_unless_terraform_role():
    """The usual guard: deny on tagged groups unless the principal is Terraform's role."""
    guard = policy(
        deny(
            Action="ec2:*SecurityGroup*",
            Condition={
                "StringEquals": {"aws:ResourceTag/managed-by": "terraform"},
                "ArnNotLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/terraform"},
            },
        )
    )
    policies = PolicySet(identity=[ADMIN], service_control=[[ADMIN, guard]])
    tagged = {"aws:ResourceTag/managed-by": ["terraform"]}
    assert decide(request(context=tagged), policies).effect == "explicit deny"
    assert decide(request(context={}), policies).effect == "allow"
    assert decide(request(context=tagged, principal=ROLE.replace("dev", "terraform")), policies).effect == "allow"


def test_wildcard_in_string_equals_is_no_wildcard():
    """StringNotEquals with a wildcard compares the star itself, so Terraform's own role is denied."""
    guard = policy(deny(Condition={"StringNotEquals": {"aws:PrincipalArn": "arn:aws:iam::*:role/terraform"}}))
    principal = ROLE.replace("dev", "terraform")
    assert decide(request(principal=principal), PolicySet(identity=[ADMIN, guard])).effect == "explicit deny"


def test_principal_arn_is_the_role_not_the_session():
    """A condition that names the session's ARN never meets `aws:PrincipalArn`."""
    guard = policy(
        deny(Condition={"ArnNotLike": {"aws:PrincipalArn": "arn:aws:sts::*:assumed-role/terraform/*"}}),
    )
    principal = ROLE.replace("dev", "terraform")
    assert decide(request(principal=principal), PolicySet(identity=[ADMIN, guard])).effect == "explicit deny"


def test_deny_that_depends_on_something_unknown_is_not_relied_on():
    """A deny that holds only from some addresses leaves the call possible, and says which statement may stop it."""
    guard = policy(deny(Sid="office", Condition={"NotIpAddress": {"aws:SourceIp": "10.0.0.0/8"}}))
    decision = decide(request(unknown="any"), PolicySet(identity=[ADMIN, guard]))
    assert decision.may_be_allowed
    assert not decision.certain
    assert decision.maybe_denied_by.sid == "office"
    absent = decide(request(unknown="any", absent=["aws:SourceIp"]), PolicySet(identity=[ADMIN, guard]))
    assert absent.effect == "explicit deny"


def test_policy_variables_need_the_newer_language():
    """`${aws:PrincipalTag/team}` in a resource is text in the 2008 language."""
    context = {"aws:PrincipalTag/team": ["ml"]}
    resource = "arn:aws:s3:::${aws:PrincipalTag/team}-data"
    for version, effect in (("2012-10-17", "allow"), ("2008-10-17", "implicit deny")):
        given = policy(allow(Resource=resource), version=version)
        found = decide(
            request(action="s3:GetObject", resource="arn:aws:s3:::ml-data", context=context),
            PolicySet(identity=[given]),
        )
        assert found.effect == effect


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"Statement": [{"Effect": "Perhaps"}]}'])
def test_what_is_no_policy_is_refused(text):
    """A document without statements of the documented shape is an input error."""
    with pytest.raises(InputError):
        parse_policy(text)
