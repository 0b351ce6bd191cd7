"""A small evaluator of AWS IAM policies, by AWS's documented semantics. Used by the audit and by the guardrails.

Three-valued: a condition on something that nobody knows before the request is made gives "maybe", so that "can
somebody still do it?" is never answered with a no that holds only sometimes.
"""

from __future__ import annotations

from firstfault.checks.iam.decision import Decision, PolicySet, Request, decide
from firstfault.checks.iam.policy import Policy, Statement, parse_policy

__all__ = ["Decision", "Policy", "PolicySet", "Request", "Statement", "decide", "parse_policy"]
