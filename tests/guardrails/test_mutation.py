"""The tests of the rules notice when a rule is broken in one of the ways in which people break rules."""

from __future__ import annotations

import copy

import pytest

from guardrails.mutation import mutants
from guardrails.promtool import ALL, WITH_RULES, group_of, needs_promtool, run_tests

ALERTS = [(g.id, a.alert) for g in WITH_RULES for a in g.alerts]
pytestmark = [*needs_promtool, pytest.mark.slow]


@pytest.mark.parametrize(("guardrail_id", "alert"), ALERTS)
def test_a_broken_rule_fails_its_tests(guardrail_id, alert, tmp_path):
    """Drop a join, a matcher or a label, flip or move a threshold, use absent(), hold longer: a test notices."""
    guardrail = ALL[guardrail_id]
    excused = next(a for a in guardrail.alerts if a.alert == alert).equivalent_mutants
    group = group_of(guardrail)
    index = next(i for i, rule in enumerate(group["rules"]) if rule.get("alert") == alert)

    survived = []
    for name, rule in _broken(group["rules"][index]):
        changed = copy.deepcopy(group)
        changed["rules"][index] = rule
        if name not in excused and run_tests(tmp_path, guardrail, changed, [alert])[0]:
            survived.append(f"SURVIVED {name}: {rule['expr']}")

    assert not survived, "\n".join(survived)
    assert set(excused) <= {name for name, _ in _broken(group["rules"][index])}, "an excuse for no mutant"


@pytest.mark.parametrize("guardrail", [g for g in WITH_RULES if g.records], ids=lambda g: g.id)
def test_a_broken_recording_rule_fails_the_tests_of_its_alerts(guardrail, tmp_path):
    """What the alerts read is tested through them."""
    group = group_of(guardrail)
    survived = []
    for index, record in enumerate(guardrail.records):
        for name, expr in mutants(record.expr):
            changed = copy.deepcopy(group)
            changed["rules"][index]["expr"] = expr
            alerts = [a.alert for a in guardrail.alerts]
            if name not in record.equivalent_mutants and run_tests(tmp_path, guardrail, changed, alerts)[0]:
                survived.append(f"{record.record}: {name}: {expr}")

    assert not survived, "\n".join(survived)


def _broken(rule):
    yield "for longer", {**rule, "for": f"{int(rule['for'][:-1]) + 300}s"}
    if rule["for"] != "0s":
        yield "for dropped", {**rule, "for": "0s"}
    for name, expr in mutants(rule["expr"]):
        yield name, {**rule, "expr": expr}
