"""Who may still change a tagged security group at run time? The questions behind the IAM checks of the checklist.

A *guard* is a policy that denies editing security groups. Its tag, the principals that it excepts and the ways around
it are read off its statements and tried with concrete requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from firstfault.checks.iam.decision import Decision, PolicySet, Request, decide
from firstfault.checks.iam.matching import glob_matches
from firstfault.checks.iam.policy import Policy, Statement
from firstfault.checks.iam.sources import ACCOUNT, REGION, PolicySource, policy_sources
from firstfault.checks.inventory import Inventory

__all__ = [
    "EDITS",
    "GENERIC",
    "GROUP",
    "INTERFACE",
    "Guard",
    "excepted_principals",
    "guards",
    "looks_like_load_balancer_controller",
    "looks_like_terraform",
    "may",
    "tag_requests",
]

EDITS = (
    "ec2:AuthorizeSecurityGroupEgress",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:ModifySecurityGroupRules",
    "ec2:RevokeSecurityGroupEgress",
    "ec2:RevokeSecurityGroupIngress",
)
GROUP = f"arn:aws:ec2:{REGION}:{ACCOUNT}:security-group/sg-0123456789abcdef0"
INTERFACE = f"arn:aws:ec2:{REGION}:{ACCOUNT}:network-interface/eni-0123456789abcdef0"
GENERIC = (
    f"arn:aws:iam::{ACCOUNT}:role/on-call",
    f"arn:aws:iam::{ACCOUNT}:role/aws-reserved/sso.amazonaws.com/AWSReservedSSO_AdministratorAccess_0123456789abcdef",
    f"arn:aws:iam::{ACCOUNT}:user/alice",
)
ALLOW_ALL = Policy(
    statements=[Statement(effect="Allow", actions=["*"], resources=["*"])], version="2012-10-17", name="everything"
)
_TAG_KEY = re.compile(r"(?:aws|ec2):resourcetag/(.+)", re.IGNORECASE)
_PRINCIPAL_KEYS = ("aws:principalarn",)
_NEGATED = ("StringNotLike", "ArnNotLike", "StringNotEquals", "ArnNotEquals", "StringNotEqualsIgnoreCase")
_TERRAFORM = re.compile(
    r"terraform|tofu|atlantis|spacelift|\btf\b|tf[-_]|[-_]tf|terragrunt|\bci\b|ci[-_]|deploy", re.IGNORECASE
)
_CONTROLLER = re.compile(r"load-?_?balancer|(?<![a-z])lbc?(?![a-z])|(?<![a-z])alb(?![a-z])", re.IGNORECASE)


class Guard(msgspec.Struct, frozen=True, eq=False):
    """A policy that denies editing security groups.

    Attributes:
        source: The policy.
        statements: Its deny statements that name edits of security groups.
        tags: Tag keys with a value that the statements ask of the group; empty: it holds for all groups.
    """

    source: PolicySource
    statements: list[Statement]
    tags: dict[str, str]


def guards(inventory: Inventory) -> list[Guard]:
    """Return the policies that deny editing security groups."""
    found: list[Guard] = inventory.memo("sg_guards", lambda: list(_guards(inventory)))
    return found


def _guards(inventory: Inventory) -> Iterator[Guard]:
    for source in policy_sources(inventory):
        statements = [item for item in source.policy.statements if item.effect == "Deny" and _names_edits(item)]
        if statements:
            tags: dict[str, str] = {}
            for statement in statements:
                tags |= _tags_of(statement)
            yield Guard(source, statements, tags)


def _names_edits(statement: Statement) -> bool:
    return any(
        "securitygroup" in pattern.lower() and any(glob_matches(pattern, edit, ignore_case=True) for edit in EDITS)
        for pattern in statement.actions
    )


def _tags_of(statement: Statement) -> dict[str, str]:
    """Return a value for each tag that the statement's conditions ask of the resource."""
    tags = {}
    for operator, keys in statement.conditions.items():
        if "Not" in operator:
            continue
        for key, values in keys.items():
            match = _TAG_KEY.fullmatch(key)
            if match and values:
                tags[match[1]] = "owned" if operator == "Null" else values[0].replace("*", "x").replace("?", "x")
    return tags


def excepted_principals(guard: Guard) -> list[str]:
    """Return the ARN patterns that the guard excepts by a negated condition on aws:PrincipalArn."""
    found: list[str] = []
    for statement in guard.statements:
        for operator, keys in statement.conditions.items():
            if operator.removesuffix("IfExists").rpartition(":")[2] in _NEGATED:
                for key, values in keys.items():
                    if key.lower() in _PRINCIPAL_KEYS:
                        found.extend(value for value in values if value not in found)
    return found


def may(
    principal: str,
    action: str,
    resource: str,
    *,
    tags: dict[str, str],
    policies: PolicySet,
    context: dict[str, list[str]] | None = None,
    absent: tuple[str, ...] = (),
) -> Decision:
    """Decide a request on a resource with exactly these tags; whatever else it carries may be anything.

    Args:
        context: Further keys of the request.
        absent: Keys that the request certainly lacks.
    """
    keys = {f"aws:ResourceTag/{tag}": [value] for tag, value in tags.items()}
    keys |= {f"ec2:ResourceTag/{tag}": [value] for tag, value in tags.items()}
    keys |= {"aws:ViaAWSService": ["false"], "aws:PrincipalIsAWSService": ["false"]}
    return decide(
        Request(
            principal=principal, action=action, resource=resource, context=keys | (context or {}), unknown="any",
            absent=[*_absent_keys(policies, keys), *absent],
        ),
        policies,
    )  # fmt: skip


def _absent_keys(policies: PolicySet, keys: dict[str, list[str]]) -> list[str]:
    """Return the tag keys of the policies' conditions that neither the resource nor the principal has."""
    known = {key.lower() for key in keys}
    levels = [policy for level in policies.service_control for policy in level]
    found = []
    for policy in [*levels, *policies.identity, *([policies.boundary] if policies.boundary else [])]:
        for statement in policy.statements:
            for operands in statement.conditions.values():
                for key in operands:
                    tag = key.lower().startswith(("aws:resourcetag/", "ec2:resourcetag/", "aws:principaltag/"))
                    if tag and key.lower() not in known:
                        found.append(key)
    return found


def tag_requests(tags: dict[str, str]) -> Iterator[tuple[str, str, dict[str, list[str]], tuple[str, ...]]]:
    """Yield the calls that take a guard's tag away: (what, action, context, keys that are absent)."""
    for tag in tags:
        yield f"DeleteTags {tag}", "ec2:DeleteTags", {"aws:TagKeys": [tag]}, ()
        yield f"DeleteTags {tag} and another tag", "ec2:DeleteTags", {"aws:TagKeys": [tag, "x"]}, ()
        # Without a list of tags the call removes all of them.
        yield "DeleteTags without naming any", "ec2:DeleteTags", {}, ("aws:TagKeys", f"aws:RequestTag/{tag}")
        changed = {"aws:TagKeys": [tag], f"aws:RequestTag/{tag}": ["something-else"]}
        yield f"CreateTags {tag} with another value", "ec2:CreateTags", changed, ()
        more = {"aws:TagKeys": [tag, "x"], f"aws:RequestTag/{tag}": ["something-else"], "aws:RequestTag/x": ["y"]}
        yield f"CreateTags {tag} together with another tag", "ec2:CreateTags", more, ()


def looks_like_terraform(name: str) -> bool:
    """Tell whether a principal's name says that it applies Terraform."""
    return _TERRAFORM.search(name) is not None


def looks_like_load_balancer_controller(name: str) -> bool:
    """Tell whether a principal's name says that it is the AWS Load Balancer Controller, which edits node groups."""
    return _CONTROLLER.search(name) is not None
