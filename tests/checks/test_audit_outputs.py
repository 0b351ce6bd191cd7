"""The audit report in SARIF, JUnit and Markdown, read back by the standards' own readers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import jsonschema
import junitparser
import pytest

from firstfault.checks import load_checks
from firstfault.checks.registry import RULES_DIR
from firstfault.model.audit import AuditReport, AuditSummary, Finding, ReadProblem
from firstfault.report.audit import FORMATS, render_audit
from support.audit import audit_cli

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0-rtm.5.json").read_text())
SUPPRESSED = """\
# firstfault:ignore=service-links-enabled the vendor asked for it until=2999-01-01
apiVersion: v1
kind: Pod
metadata:
  name: llm
spec:
  containers:
    - name: server
      image: vllm/vllm-openai:v0.11.0
"""


@cache
def validator():
    return jsonschema.Draft4Validator(SCHEMA)


def sarif_of(folder, *paths):
    log = json.loads(audit_cli(folder, *paths, "--format", "sarif")[1])
    assert [error.message for error in validator().iter_errors(log)] == []
    [run] = log["runs"]
    return run


def nasty_report():
    """A report whose texts hold what breaks writers: control characters, quotes, markup, absolute paths."""
    finding = Finding(
        check="service-links-enabled", layer="workload", result="fail", severity="high",
        message='a "quote" <b>&amp;</b> \x00\x1b[2J ]]> | [x](y) @everyone '
         "\n::error::x", path="/tmp/a b/ü#1?.yaml",
        line=0, end_line=0, subject="Pod/\x07x", fix="do `it`", fingerprint="f",
    )  # fmt: skip
    problem = ReadProblem(path="b.yaml", line=0, message="b.yaml: \x00 bad")
    summary = AuditSummary(passed=0, failed=1, unknown=0, suppressed=0, not_applicable=0, files=1)
    return AuditReport(findings=[finding], summary=summary, checks=[], problems=[problem])


def test_sarif_of_every_bad_fixture_is_valid(tmp_path):
    """All bad fixtures together: schema, lines from 1, relative and encoded uris, known rules, unique fingerprints."""
    run = sarif_of(tmp_path, RULES_DIR)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(load_checks())
    assert all(rule["helpUri"].endswith(f"/{rule['id']}.md") for rule in rules)
    assert len(run["results"]) >= len(rules)
    seen = set()
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert (result["kind"] == "fail") == (result["level"] != "none")
        region = result["locations"][0]["physicalLocation"]["region"]
        assert 1 <= region["startLine"] <= region["endLine"]
        seen.add((result["ruleId"], result["partialFingerprints"]["firstfaultAudit/v1"]))
    assert len(seen) == len(run["results"])


def test_sarif_uris_are_relative_and_suppressions_are_carried(tmp_path):
    """A suppressed finding stays in the log, with its justification; the uri is relative to the working directory."""
    (tmp_path / "my pods").mkdir()
    (tmp_path / "my pods" / "pod.yaml").write_text(SUPPRESSED)
    run = sarif_of(tmp_path, "my pods", "--check", "service-links-enabled")
    [result] = run["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "my%20pods/pod.yaml"
    assert result["suppressions"] == [
        {"kind": "inSource", "status": "accepted", "justification": "the vendor asked for it"}
    ]


def test_sarif_fingerprints_survive_moved_lines(tmp_path):
    """The same finding after lines were inserted above has the same fingerprint."""
    path = tmp_path / "pod.yaml"
    prints = []
    for text in (SUPPRESSED, "\n\n# moved\n" + SUPPRESSED.partition("\n")[2]):
        path.write_text(text)
        [result] = sarif_of(tmp_path, "pod.yaml", "--check", "service-links-enabled")["results"]
        prints.append(result["partialFingerprints"])
    assert prints[0] == prints[1]


def test_sarif_reports_unreadable_inputs_as_notifications(tmp_path):
    """A file that cannot be read makes the invocation unsuccessful, with its place."""
    (tmp_path / "broken.yaml").write_text("a: [\n")
    run = sarif_of(tmp_path, "broken.yaml")
    [invocation] = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "broken.yaml" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_junit_is_read_back(tmp_path):
    """A JUnit reader finds the failure, the skipped ones, and the counts."""
    (tmp_path / "a.yaml").write_text(SUPPRESSED)
    (tmp_path / "b.yaml").write_text(SUPPRESSED.partition("\n")[2])
    code, text = audit_cli(tmp_path, ".", "--check", "service-links-enabled", "--format", "junit")
    assert code == 1
    suite = next(iter(junitparser.JUnitXml.fromstring(text.encode())))
    assert (suite.tests, suite.failures, suite.skipped) == (2, 1, 1)
    results = {case.name.partition("(")[2].rstrip(")"): case.result for case in suite}
    assert isinstance(results["b.yaml:6"][0], junitparser.Failure)
    assert isinstance(results["a.yaml:7"][0], junitparser.Skipped)


@pytest.mark.parametrize("form", FORMATS)
def test_text_of_inputs_is_data_in_every_format(form):
    """Control characters reach no output, and every format stays well-formed whatever the inputs hold."""
    text = render_audit(nasty_report(), {}, form)
    assert "\x00" not in text
    assert "\x1b" not in text
    if form == "sarif":
        assert [error.message for error in validator().iter_errors(json.loads(text))] == []
    if form == "junit":
        assert next(iter(junitparser.JUnitXml.fromstring(text.encode()))).failures == 1
    if form == "markdown":
        assert "<b>" not in text
        assert "@everyone" not in text
        assert "[x](y)" not in text
    if form == "text":
        assert not any(line.lstrip().startswith("::") for line in text.splitlines())


def test_markdown_links_checks_and_places(tmp_path):
    """The summary links each finding's page and line."""
    (tmp_path / "b.yaml").write_text(SUPPRESSED.partition("\n")[2])
    text = audit_cli(tmp_path, "b.yaml", "--check", "service-links-enabled", "--format", "markdown")[1]
    assert "(b.yaml#L6)" in text
    assert "docs/checks/service-links-enabled.md" in text
    assert "**1 open**" in text
