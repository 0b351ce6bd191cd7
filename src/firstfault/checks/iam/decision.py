"""May this principal do this? Explicit deny beats allow; SCPs, boundary and session limit what identity policies give.

Semantics: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html (one account, no
resource control policies).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from firstfault.checks.iam.conditions import Tri, all_of, any_of, conditions_hold
from firstfault.checks.iam.matching import arn_matches, expand, glob_matches, resource_matches
from firstfault.checks.iam.policy import Policy, Statement

__all__ = ["Decision", "PolicySet", "Request", "decide", "statement_applies"]

_ARN_PARTS = 6


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One API call.

    Attributes:
        principal: ARN of the role or user, as `aws:PrincipalArn` has it: for a session, the ARN of its *role*.
        action: "ec2:AuthorizeSecurityGroupIngress".
        resource: ARN of the resource; "*" for actions that have none.
        context: Condition keys with their values, any case.
        unknown: What keys that are not in `context` mean. "absent": the request has none of them (the answer is exact).
            "any": they may have any value, except those in `absent`; then answers may be "maybe".
        absent: Keys that are certainly absent although `unknown` is "any".
    """

    principal: str
    action: str
    resource: str
    context: dict[str, list[str]] = {}
    unknown: Literal["absent", "any"] = "absent"
    absent: list[str] = []

    def keys(self) -> dict[str, list[str]]:
        """Return the context with lower-case keys, and with the keys that follow from the principal."""
        parts = self.principal.split(":", _ARN_PARTS - 1)
        implied = {"aws:principalarn": [self.principal]}
        if len(parts) == _ARN_PARTS and parts[4]:
            implied["aws:principalaccount"] = [parts[4]]
        return implied | {key.lower(): values for key, values in self.context.items()}

    def is_unknown(self, key: str) -> bool:
        """Tell whether a lower-case key, not in the context, may have any value."""
        return self.unknown == "any" and not any(key == item.lower() for item in self.absent)


class PolicySet(msgspec.Struct, frozen=True, kw_only=True):
    """Every policy that counts for one principal.

    Attributes:
        identity: Attached to the user, role or its groups.
        service_control: One list for each level from the root of the organisation to the account; empty where no
            organisation is known, which limits nothing.
        boundary: The permissions boundary, or None.
        session: The session policy, or None.
        resource: On the resource.
    """

    identity: list[Policy] = []
    service_control: list[list[Policy]] = []
    boundary: Policy | None = None
    session: Policy | None = None
    resource: list[Policy] = []


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer.

    Attributes:
        effect: allow · explicit deny · implicit deny; the most permissive one where it is not certain.
        certain: False when a condition on something unknown may change it.
        by: Name of the policy that decided; for an implicit deny, of the layer that does not allow.
        statement: The statement that decided, or None.
        maybe_denied_by: The statement that would deny under conditions, where there is one.
    """

    effect: Literal["allow", "explicit deny", "implicit deny"]
    certain: bool = True
    by: str = ""
    statement: Statement | None = None
    maybe_denied_by: Statement | None = None

    @property
    def may_be_allowed(self) -> bool:
        """True unless it is certain that the call is refused."""
        return self.effect == "allow"


def decide(request: Request, policies: PolicySet) -> Decision:
    """Decide one request."""
    maybe: Statement | None = None
    for policy in _all(policies):
        for statement in policy.statements:
            if statement.effect == "Deny":
                applies = statement_applies(statement, request, policy.version)
                if applies:
                    return Decision(effect="explicit deny", by=policy.name, statement=statement)
                if applies is None:
                    maybe = maybe or statement
    layers: list[tuple[str, list[Policy]]] = [
        *(("service control policies", level) for level in policies.service_control),
        *([("permissions boundary", [policies.boundary])] if policies.boundary else []),
        *([("session policy", [policies.session])] if policies.session else []),
        ("identity policies", [*policies.identity, *policies.resource]),
    ]
    certain = maybe is None
    by, allowing = "", None
    for name, layer in layers:
        answer, by, allowing = _allowed(request, layer)
        if answer is False:
            return Decision(effect="implicit deny", by=name, maybe_denied_by=maybe)
        certain = certain and answer is True
    return Decision(effect="allow", certain=certain, by=by, statement=allowing, maybe_denied_by=maybe)


def _all(policies: PolicySet) -> Iterator[Policy]:
    for level in policies.service_control:
        yield from level
    if policies.boundary:
        yield policies.boundary
    if policies.session:
        yield policies.session
    yield from policies.identity
    yield from policies.resource


def _allowed(request: Request, layer: list[Policy]) -> tuple[Tri, str, Statement | None]:
    result: Tri = False
    found: tuple[str, Statement | None] = ("", None)
    for policy in layer:
        for statement in policy.statements:
            if statement.effect != "Allow":
                continue
            applies = statement_applies(statement, request, policy.version)
            if applies:
                return True, policy.name, statement
            if applies is None:
                result, found = None, (policy.name, statement)
    return result, *found


def statement_applies(statement: Statement, request: Request, version: str = "2012-10-17") -> Tri:
    """Tell whether a statement is about a request: action, resource, principal and conditions."""
    if not _action(statement, request.action):
        return False
    context = request.keys()
    variables = context if version == "2012-10-17" else {}
    return all_of(
        (
            _resource(statement, request.resource, variables),
            _principal(statement, request.principal),
            conditions_hold(statement.conditions, context, request.is_unknown),
        )
    )


def _action(statement: Statement, action: str) -> bool:
    if statement.not_actions is not None:
        return not any(glob_matches(pattern, action, ignore_case=True) for pattern in statement.not_actions)
    return any(glob_matches(pattern, action, ignore_case=True) for pattern in statement.actions)


def _resource(statement: Statement, arn: str, context: dict[str, list[str]]) -> Tri:
    patterns = statement.resources if statement.not_resources is None else statement.not_resources
    if not patterns and statement.not_resources is None:
        return statement.principals is not None  # a trust policy is about its own role
    expanded = [value for value in (expand(pattern, context) for pattern in patterns) if value is not None]
    matched = any_of(_one_resource(pattern, arn) for pattern in expanded)
    if statement.not_resources is None or matched is None:
        return matched
    return not matched


def _one_resource(pattern: str, arn: str) -> bool:
    # An action without resource types is authorised against "*", which only a pattern of "*" matches.
    return pattern == "*" if arn == "*" else resource_matches(pattern, arn)


def _principal(statement: Statement, arn: str) -> bool:
    if statement.not_principals is not None:
        return not _is_principal(statement.not_principals, arn)
    return statement.principals is None or _is_principal(statement.principals, arn)


def _is_principal(principals: dict[str, list[str]], arn: str) -> bool:
    account = arn.split(":")[4] if arn.count(":") >= _ARN_PARTS - 1 else ""
    for kind, names in principals.items():
        for name in names:
            if kind in {"*", "AWS"} and (name in {"*", arn, account} or name == f"arn:aws:iam::{account}:root"):
                return True
            if kind == "AWS" and "*" not in name and arn_matches(name, arn):
                return True
    return False
