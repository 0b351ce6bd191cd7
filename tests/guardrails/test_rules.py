"""Every alert has tests that fire and that stay quiet, and they pass in the real promtool."""

from __future__ import annotations

import subprocess

import pytest

from firstfault.guardrails.registry import load_tests
from firstfault.guardrails.yamltext import dump
from guardrails.promtool import OPTIONS, PROMTOOL, WITH_RULES, group_of, needs_promtool, run_tests

ALERTS = [(g.id, a.alert) for g in WITH_RULES for a in g.alerts]


@pytest.mark.parametrize("guardrail", WITH_RULES, ids=lambda g: g.id)
def test_every_alert_has_a_firing_and_a_quiet_test(guardrail):
    """An alert without both is a hope; a test without its alert is left over."""
    tests = load_tests(guardrail.id, OPTIONS)

    assert set(tests) == {alert.alert for alert in guardrail.alerts}
    for alert in guardrail.alerts:
        kinds = tests[alert.alert]
        assert any(case.get("firing_at") for case in kinds["fires"]), alert.alert
        if alert.severity != "none":  # a heartbeat never is quiet: that is its point
            assert any(case.get("quiet_at") for case in kinds["quiet"]), alert.alert


def test_alert_names_are_unique():
    """Two guardrails with one name would overwrite each other in Alertmanager's groups."""
    names = [name for _, name in ALERTS]

    assert len(names) == len(set(names))


class TestPromtool:
    """The real promtool, on what is rendered."""

    pytestmark = needs_promtool

    @pytest.mark.parametrize("guardrail", WITH_RULES, ids=lambda g: g.id)
    def test_the_rules_are_valid_and_their_tests_pass(self, guardrail, tmp_path):
        """`promtool check rules` and `promtool test rules`."""
        ok, said = run_tests(tmp_path, guardrail, group_of(guardrail), [a.alert for a in guardrail.alerts])
        checked = subprocess.run(
            [PROMTOOL, "check", "rules", "rules.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
        )

        assert ok, said
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_rule_that_cannot_be_parsed_is_seen(tmp_path):
    """The runner itself tells a broken file from a good one."""
    if PROMTOOL is None:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    group = {"name": "x", "rules": [{"alert": "A", "expr": "sum by ("}]}
    (tmp_path / "rules.yaml").write_text(dump({"groups": [group]}))

    assert subprocess.run(
        [PROMTOOL, "check", "rules", tmp_path / "rules.yaml"], capture_output=True, check=False
    ).returncode
