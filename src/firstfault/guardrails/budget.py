"""How long until somebody knows: the worst case of each rule and of each scenario (verb: `guard budget`).

The sum for a rule is what has to pass, one after the other, when everything just missed its turn:

    event + collect + scrape + window + evaluation + for + group

`for` counts in whole evaluations, because Prometheus looks only then. `group` is the longer of group_wait and
group_interval: an alert that joins a group which was notified already waits for the latter. Delivery by the pager is
not included. A scenario's budget is that of its best path.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import msgspec

from firstfault.errors import UsageError
from firstfault.guardrails.options import Intervals, Options
from firstfault.guardrails.registry import load_guardrails, load_scenarios

if TYPE_CHECKING:
    from firstfault.guardrails.spec import AlertRule, Guardrail, OtherPath, Scenario, Term

__all__ = ["BudgetReport", "PathBudget", "ScenarioBudget", "TermSum", "budget", "refuse_missed_budgets", "rule_path"]

MINUTE = 60.0


class TermSum(msgspec.Struct, frozen=True, kw_only=True):
    """One term of a sum.

    Attributes:
        name: event, collect, scrape, window, evaluation, for, group, or what an agent does.
        seconds: At its worst.
        what: What happens during that time.
        basis: configured, documented or assumed.
    """

    name: str
    seconds: float
    what: str
    basis: str


class PathBudget(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a scenario is noticed.

    Attributes:
        path: Name of the alert, or what notices in words.
        kind: rule, admission or agent.
        guardrail: Id of the guardrail that brings it; empty for agents.
        available: Whether this release brings it.
        seconds: Worst case; None for a path that is not available.
        declared_s: What a rule promises; None for other paths.
        dominant: Name of the largest term.
        within_minute: Whether the worst case is below 60 s.
        scenarios: Scenarios that it notices.
        terms: The sum's terms.
        note: What it covers, and what it does not.
        partial: It covers only one way in which the scenario comes about, and does not decide its budget.
    """

    path: str
    kind: Literal["rule", "admission", "agent"]
    guardrail: str
    available: bool
    seconds: float | None
    declared_s: float | None
    dominant: str
    within_minute: bool
    scenarios: list[str]
    terms: list[TermSum]
    note: str = ""
    partial: bool = False


class ScenarioBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario with all its paths, best first.

    Attributes:
        id: "C1" to "C7".
        title: What goes wrong.
        estimate: What the checklist estimated, in its words.
        goal_s: Our goal.
        budget_s: Worst case of the best available path; None when there is none.
        best: Name of that path.
        within_minute: Whether `budget_s` is below 60.
        within_goal: Whether it is at or below the goal.
        paths: All paths.
    """

    id: str
    title: str
    estimate: str
    goal_s: float
    budget_s: float | None
    best: str
    within_minute: bool
    within_goal: bool
    paths: list[PathBudget]


class BudgetReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `guard budget --format json` prints.

    Attributes:
        schema: "firstfault.guard/1".
        command: "budget".
        intervals: The intervals that the sums are made of.
        scenarios: C1 to C7.
        rules: Every rule, whether a scenario names it or not.
    """

    schema: str = "firstfault.guard/1"
    command: str = "budget"
    intervals: Intervals
    scenarios: list[ScenarioBudget]
    rules: list[PathBudget]


def rule_path(alert: AlertRule, guardrail: Guardrail, intervals: Intervals) -> PathBudget:
    """Return the worst case of one rule.

    Raises:
        UsageError: The rule reads a source that has no intervals.
    """
    latency = alert.latency
    if latency.source not in intervals.sources:
        raise UsageError(
            f"{alert.alert} reads {latency.source!r}, which has no intervals", "add it to options.Intervals"
        )
    source = intervals.sources[latency.source]
    evaluation = max(guardrail.interval_s or 0, intervals.evaluation_s)
    held = math.ceil(alert.for_s / evaluation) * evaluation
    group = max(intervals.group_wait_s, intervals.group_interval_s)
    sums = [
        _term("event", latency.event),
        TermSum(name="collect", seconds=source.collect_s, what=f"{latency.source} collects", basis="configured"),
        TermSum(
            name="scrape", seconds=source.scrape_s, what=f"Prometheus scrapes {latency.source}", basis="configured"
        ),
        _term("window", latency.window),
        TermSum(name="evaluation", seconds=evaluation, what="the rule group is evaluated", basis="configured"),
        TermSum(name="for", seconds=held, what="the condition holds", basis="configured"),
        TermSum(name="group", seconds=group, what="Alertmanager: group_wait or group_interval", basis="configured"),
    ]
    return _path(
        alert.alert,
        "rule",
        [term for term in sums if term.seconds],
        guardrail=guardrail.id,
        declared_s=alert.budget_s,
        scenarios=list(alert.scenarios),
    )


def refuse_missed_budgets(guardrails: list[Guardrail], intervals: Intervals) -> None:
    """Refuse rules whose own sum is larger than what they declare.

    Raises:
        UsageError: Names each such rule, its sum and its largest term.
    """
    late = []
    for guardrail in guardrails:
        for alert in guardrail.alerts:
            path = rule_path(alert, guardrail, intervals)
            if path.seconds is not None and path.seconds > alert.budget_s:
                late.append(f"{alert.alert}: {path.seconds:g} s > {alert.budget_s:g} s, mostly {path.dominant}")
    if late:
        raise UsageError(
            "with these intervals a rule would be later than it promises:\n    " + "\n    ".join(late),
            "shorten that interval, or leave the guardrail out (--only)",
        )


def budget(options: Options, guardrails: list[Guardrail] | None = None) -> BudgetReport:
    """Return the worst-case detection latency of every rule and scenario.

    Args:
        options: What the cluster has, and its intervals.
        guardrails: Those that are rendered; None takes all that apply to the cluster.
    """
    chosen = load_guardrails(options) if guardrails is None else guardrails
    rules = [rule_path(alert, g, options.intervals) for g in chosen for alert in g.alerts]
    ids = {g.id for g in chosen}
    return BudgetReport(
        intervals=options.intervals,
        scenarios=[_scenario(s, rules, ids, options) for s in load_scenarios(options)],
        rules=sorted(rules, key=lambda path: path.path),
    )


def _scenario(scenario: Scenario, rules: list[PathBudget], ids: set[str], options: Options) -> ScenarioBudget:
    paths = [path for path in rules if scenario.id in path.scenarios]
    paths += [_other(p, scenario.id, options) for p in scenario.paths if not p.guardrail or p.guardrail in ids]
    paths.sort(key=lambda path: (path.seconds is None, path.seconds or 0, path.path))
    best = next((path for path in paths if path.seconds is not None and not path.partial), None)
    seconds = best.seconds if best else None
    return ScenarioBudget(
        id=scenario.id,
        title=scenario.title,
        estimate=scenario.estimate,
        goal_s=scenario.goal_s,
        budget_s=seconds,
        best=best.path if best else "",
        within_minute=seconds is not None and seconds < MINUTE,
        within_goal=seconds is not None and seconds <= scenario.goal_s,
        paths=paths,
    )


def _other(path: OtherPath, scenario: str, options: Options) -> PathBudget:
    note = path.note
    available = path.release
    if path.kind == "admission" and options.mode == "audit":
        available, note = False, f"refuses only with --mode enforce; {note}"
    terms = [TermSum(name=t.what, seconds=t.seconds, what=t.what, basis=t.basis) for t in path.terms]
    answer = _path(
        path.path,
        path.kind,
        terms,
        guardrail=path.guardrail,
        available=available,
        note=note,
        scenarios=[scenario],
    )
    return msgspec.structs.replace(answer, partial=path.partial)


def _path(
    name: str,
    kind: Literal["rule", "admission", "agent"],
    terms: list[TermSum],
    *,
    guardrail: str,
    scenarios: list[str],
    declared_s: float | None = None,
    available: bool = True,
    note: str = "",
) -> PathBudget:
    seconds = sum(term.seconds for term in terms)
    return PathBudget(
        path=name,
        kind=kind,
        guardrail=guardrail,
        available=available,
        seconds=seconds if available else None,
        declared_s=declared_s,
        dominant=max(terms, key=lambda term: term.seconds).name if terms else "",
        within_minute=available and seconds < MINUTE,
        scenarios=scenarios,
        terms=terms,
        note=note,
    )


def _term(name: str, term: Term | None) -> TermSum:
    if term is None:
        return TermSum(name=name, seconds=0, what="", basis="configured")
    return TermSum(name=name, seconds=term.seconds, what=term.what, basis=term.basis)
