"""Renders what would have noticed a fault: rules, policies, manifests (verb: guard)."""

from firstfault.guardrails.budget import BudgetReport, PathBudget, ScenarioBudget, budget
from firstfault.guardrails.lock import LockReport, judge, read_plan
from firstfault.guardrails.metrics import SMOKE_METRICS, SmokeMetric
from firstfault.guardrails.options import FEATURES, Intervals, Options, Source
from firstfault.guardrails.registry import guardrail_ids, load_guardrails, load_scenarios, select
from firstfault.guardrails.render import Rendered, render
from firstfault.guardrails.spec import AlertRule, Guardrail, Scenario
from firstfault.guardrails.tree import Change, apply_tree, plan_tree

__all__ = [
    "FEATURES",
    "SMOKE_METRICS",
    "AlertRule",
    "BudgetReport",
    "Change",
    "Guardrail",
    "Intervals",
    "LockReport",
    "Options",
    "PathBudget",
    "Rendered",
    "Scenario",
    "ScenarioBudget",
    "SmokeMetric",
    "Source",
    "apply_tree",
    "budget",
    "guardrail_ids",
    "judge",
    "load_guardrails",
    "load_scenarios",
    "plan_tree",
    "read_plan",
    "render",
    "select",
]
