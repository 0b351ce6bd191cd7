"""Runs the real promtool on rule groups and their tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstfault.guardrails.options import Options
from firstfault.guardrails.registry import load_guardrails, load_tests
from firstfault.guardrails.rules import promtool_tests, rule_group
from firstfault.guardrails.spec import Guardrail
from firstfault.guardrails.yamltext import dump

PROMTOOL = shutil.which("promtool")
needs_promtool = [
    pytest.mark.prometheus,
    pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian package prometheus)"),
]
OPTIONS = Options()
ALL = {g.id: g for g in load_guardrails(OPTIONS, everything=True)}
WITH_RULES = [g for g in ALL.values() if g.alerts]


def run_tests(folder: Path, guardrail: Guardrail, group: dict[str, Any], alerts: list[str]) -> tuple[bool, str]:
    """Run the tests of some alerts against a rule group; return whether they passed, and what promtool said."""
    (folder / "rules.yaml").write_text(dump({"groups": [group]}))
    tests = {name: cases for name, cases in load_tests(guardrail.id, OPTIONS).items() if name in alerts}
    (folder / "test.yaml").write_text(dump(promtool_tests(guardrail, tests, "rules.yaml")))
    done = subprocess.run(
        [PROMTOOL, "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode == 0, done.stdout + done.stderr


def group_of(guardrail: Guardrail) -> dict[str, Any]:
    """Return the guardrail's whole rule group."""
    return rule_group(guardrail, OPTIONS)
