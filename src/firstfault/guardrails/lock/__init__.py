"""The lock (B15): refuses a Terraform plan that takes away a security-group rule which training needs.

The accident comes from a pull request or a module upgrade and is applied by Terraform's own role, so no right that is
taken from people stops it. A pipeline asks here, between plan and apply.
"""

from __future__ import annotations

from firstfault.guardrails.lock.plan import Plan, SecurityGroupRule, read_plan
from firstfault.guardrails.lock.verdict import LockReport, Loss, judge

__all__ = ["LockReport", "Loss", "Plan", "SecurityGroupRule", "judge", "read_plan"]
