"""The five-layer checklist as checks over Terraform, manifests, rules and live state (verb: audit)."""

from __future__ import annotations

from firstfault.checks.config import AuditConfig, load_baseline, load_config, make_baseline
from firstfault.checks.engine import SEVERITIES, audit, audit_inventory, audit_with_inventory, exit_code_of
from firstfault.checks.fix import FixPlan, plan_fixes
from firstfault.checks.iam import Decision, Policy, PolicySet, Request, Statement, decide, parse_policy
from firstfault.checks.inventory import Inventory
from firstfault.checks.load import load_inventory
from firstfault.checks.registry import Check, CheckInfo, find_check, load_checks

__all__ = [
    "SEVERITIES",
    "AuditConfig",
    "Check",
    "CheckInfo",
    "Decision",
    "FixPlan",
    "Inventory",
    "Policy",
    "PolicySet",
    "Request",
    "Statement",
    "audit",
    "audit_inventory",
    "audit_with_inventory",
    "decide",
    "exit_code_of",
    "find_check",
    "load_baseline",
    "load_checks",
    "load_config",
    "load_inventory",
    "make_baseline",
    "parse_policy",
    "plan_fixes",
]
