"""The budget is the sum of its terms, and rendering refuses a rule that would miss what it declares."""

from __future__ import annotations

import pytest

from firstfault.errors import UsageError
from firstfault.guardrails import Intervals, Options, budget, load_guardrails, render
from firstfault.guardrails.budget import rule_path
from firstfault.guardrails.spec import AlertRule, Guardrail, Latency, Term
from firstfault.report.guard import budget_report


def one(for_s=0, event=0.0, source="kube-state-metrics"):
    alert = AlertRule(
        alert="A", expr="up", for_s=for_s, severity="critical", cause="x.y.z", summary="", description="", budget_s=60,
        latency=Latency(source=source, event=Term(seconds=event, what="it happens")),
    )  # fmt: skip
    return alert, Guardrail(id="g", title="", serves=["B1"], layer="infra", why="", alerts=[alert])


def test_every_interval_is_counted_once():
    """Event 7 + collect 5 + scrape 5 + evaluation 5 + for 10 + group 10."""
    path = rule_path(*one(for_s=10, event=7, source="dcgm-exporter"), Intervals())

    assert {t.name: t.seconds for t in path.terms} == {
        "event": 7, "collect": 5, "scrape": 5, "evaluation": 5, "for": 10, "group": 10,
    }  # fmt: skip
    assert path.seconds == 42
    assert path.dominant in ("for", "group")
    assert path.within_minute


def test_interval_of_nothing_is_refused():
    """0 s would make the budget shorter than any cluster is."""
    with pytest.raises(UsageError, match="kube-state-metrics"):
        Intervals().with_source("kube-state-metrics", scrape_s=0)
    with pytest.raises(UsageError, match="evaluated every 0 s"):
        Intervals(evaluation_s=0)


def test_scenario_that_nothing_notices_is_said_in_words():
    options = Options()
    text = budget_report(budget(options, []), "text")
    assert "not noticed by any guardrail that was chosen" in text
    assert "by  (" not in text


def test_for_is_counted_in_whole_evaluations():
    """Prometheus looks every 30 s: holding 31 s takes until the second look."""
    path = rule_path(*one(for_s=31), Intervals(evaluation_s=30))

    assert {t.name: t.seconds for t in path.terms}["for"] == 60


def test_group_interval_counts_where_it_is_longer_than_group_wait():
    """Alertmanager's default of five minutes is what a second alert of a group waits."""
    path = rule_path(*one(), Intervals(group_wait_s=0, group_interval_s=300))

    assert path.dominant == "group"
    assert not path.within_minute


def test_render_refuses_a_rule_that_would_be_late_and_says_which_term():
    """With dcgm-exporter's default interval of 30 s and a scrape of 30 s an XID rule misses its minute."""
    slow = Intervals().with_source("dcgm-exporter", scrape_s=30, collect_s=30)

    with pytest.raises(UsageError, match=r"FirstFaultXIDIsolate: 75 s > 60 s") as error:
        render(Options(intervals=slow))

    assert "mostly" in str(error.value)


def test_render_accepts_a_slow_rule_that_declares_to_be_slow():
    """The smoke test's half hour is no reason to refuse it."""
    built = render(Options(smoke_period_s=3600))

    assert "prometheus/rules/smoke-alerts.yaml" in built.files


def test_every_scenario_is_listed_with_all_its_paths_best_first():
    """Agents of a later release are listed and do not count."""
    report = budget(Options())

    assert [s.id for s in report.scenarios] == [f"C{n}" for n in range(1, 8)]
    for scenario in report.scenarios:
        known = [path.seconds for path in scenario.paths if path.seconds is not None]
        assert known == sorted(known)
        assert scenario.budget_s == (known[0] if known else None)
    xid = report.scenarios[4]
    assert any(path.kind == "agent" and not path.available and path.seconds is None for path in xid.paths)
    assert xid.within_minute
    assert not xid.within_goal


def test_what_covers_a_scenario_only_in_part_does_not_decide_its_budget():
    """Refusing a Pod without an EFA request is immediate, and says nothing about a missing plugin."""
    report = budget(Options(mode="enforce", instance_types=("p5.48xlarge",)))

    fallback = report.scenarios[6]
    assert fallback.paths[0].partial
    assert fallback.paths[0].seconds == 0
    assert fallback.best == "FirstFaultEFAIdle"


def test_admission_counts_only_where_it_refuses():
    """In audit mode a violation is only counted."""
    enforce, audit = (budget(Options(mode=mode)).scenarios[3] for mode in ("enforce", "audit"))

    assert enforce.budget_s == 0
    assert audit.best.startswith("FirstFaultPolicyViolated")


def test_every_rule_declares_a_budget_that_the_default_intervals_keep():
    """Otherwise the default tree could not be rendered."""
    for guardrail in load_guardrails(Options(), everything=True):
        for alert in guardrail.alerts:
            path = rule_path(alert, guardrail, Intervals())
            assert path.seconds <= alert.budget_s, alert.alert


def test_an_unknown_source_is_a_usage_error():
    """The message lists the names."""
    with pytest.raises(UsageError, match="no metrics source"):
        Intervals().with_source("nagios", scrape_s=1)
