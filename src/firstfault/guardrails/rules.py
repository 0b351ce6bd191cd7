"""Turns the alerts and records of guardrails into Prometheus rule groups, and their tests into promtool's format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firstfault.guardrails.options import Options
    from firstfault.guardrails.spec import AlertRule, Guardrail

# The times in the tests are made for this interval, whatever the cluster's own is; guardrails with a longer one of
# their own are tested with that.
TEST_INTERVAL_S = 5

__all__ = ["TEST_INTERVAL_S", "duration", "promtool_tests", "rule_group"]


def duration(seconds: float) -> str:
    """Return seconds in Prometheus' notation: 90 -> "90s", 0.5 -> "500ms"."""
    return f"{seconds:g}s" if seconds == int(seconds) else f"{round(seconds * 1000)}ms"


def rule_group(guardrail: Guardrail, options: Options) -> dict[str, Any]:
    """Return the rule group of a guardrail: its records, then its alerts, so that one pass evaluates both."""
    interval = guardrail.interval_s or options.intervals.evaluation_s
    rules: list[dict[str, Any]] = []
    for record in guardrail.records:
        rule: dict[str, Any] = {"record": record.record, "expr": record.expr.strip()}
        if record.labels:
            rule["labels"] = record.labels
        rules.append(rule)
    rules += [_alert(alert, guardrail) for alert in guardrail.alerts]
    return {"name": f"firstfault-{guardrail.id}", "interval": duration(interval), "rules": rules}


def _alert(alert: AlertRule, guardrail: Guardrail) -> dict[str, Any]:
    return {
        "alert": alert.alert,
        "expr": alert.expr.strip(),
        "for": duration(alert.for_s),
        "labels": {
            "severity": alert.severity,
            "layer": guardrail.layer,
            "cause": alert.cause,
            "guardrail": guardrail.id,
        },
        "annotations": {
            "summary": alert.summary,
            "description": alert.description.strip(),
            "next_step": f"firstfault explain {alert.cause}",
            "serves": ", ".join(guardrail.serves),
        },
    }


def promtool_tests(
    guardrail: Guardrail,
    tests: dict[str, dict[str, list[dict[str, Any]]]],
    rule_file: str,
) -> dict[str, Any]:
    """Return a file for `promtool test rules`.

    In the library a test names, beside promtool's own keys, when an alert must fire (`firing_at`: {time: [labels]})
    and when it must not (`quiet_at`: [times]). The first becomes a query of ALERTS, which names exactly the labels
    that matter; the second an `alert_rule_test` that expects none.

    Args:
        guardrail: Whose alerts are tested; tests of alerts that it does not have are left out.
        tests: `registry.load_tests`.
        rule_file: Path of the rule file, relative to the test file.
    """
    interval = duration(max(TEST_INTERVAL_S, guardrail.interval_s or 0))
    cases: list[dict[str, Any]] = []
    for alert in guardrail.alerts:
        for kind in ("fires", "quiet"):
            cases += [_case(alert.alert, case) for case in tests.get(alert.alert, {}).get(kind, [])]
    return {
        "rule_files": [rule_file],
        "evaluation_interval": interval,
        "tests": cases,
    }


def _case(alert: str, case: dict[str, Any]) -> dict[str, Any]:
    queries = []
    for time, wanted in case.get("firing_at", {}).items():
        keys = sorted({name for labels in wanted for name in labels})
        queries.append(
            {
                "expr": f"count by ({', '.join(['alertname', *keys])}) "
                f'(ALERTS{{alertname="{alert}", alertstate="firing"}})',
                "eval_time": time,
                "exp_samples": [{"labels": _series({"alertname": alert, **labels}), "value": 1} for labels in wanted],
            }
        )
    rendered = {
        "name": f"{alert}: {case['name']}",
        "interval": case.get("interval", f"{TEST_INTERVAL_S}s"),
        "input_series": case["input_series"],
    }
    if queries:
        rendered["promql_expr_test"] = queries
    if quiet := case.get("quiet_at"):
        rendered["alert_rule_test"] = [{"eval_time": t, "alertname": alert, "exp_alerts": []} for t in quiet]
    return rendered


def _series(labels: dict[str, str]) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
