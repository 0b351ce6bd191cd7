"""The page about guard tells what the program computes."""

from __future__ import annotations

from pathlib import Path

from firstfault.guardrails import Options, budget, load_guardrails
from guardrails.mutation import mutants

PAGE = (Path(__file__).parents[2] / "docs" / "guard.md").read_text(encoding="utf-8")


def test_the_budgets_on_the_page_are_those_of_the_program():
    """One row for each scenario, with its worst case."""
    for scenario in budget(Options(instance_types=("p5.48xlarge",))).scenarios:
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| {scenario.id} |"))
        assert f"| {scenario.budget_s:g} s | yes" in row, row


def test_the_number_of_alerts_and_mutants_is_right():
    """Counted, not remembered."""
    loaded = load_guardrails(Options(), everything=True)
    alerts = [alert for g in loaded for alert in g.alerts]
    broken = sum(len(list(mutants(alert.expr))) + 1 + (alert.for_s > 0) for alert in alerts)
    broken += sum(len(list(mutants(record.expr))) for g in loaded for record in g.records)

    assert f"{len(alerts)} alerts, {broken} mutants" in PAGE
