"""The published JSON Schemas: fresh, valid themselves, and true of what the verbs really print."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from firstfault.checks import load_checks
from firstfault.cli.app import app
from firstfault.report.schemas import SCHEMA_NAMES, schema_of

ROOT = Path(__file__).parents[2]
PLAN = {"planned_values": {}, "resource_changes": []}


def validator(name):
    schema = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def printed(*arguments):
    return json.loads(CliRunner().invoke(app, [*arguments, "--format", "json"], standalone_mode=False).stdout)


def test_published_schemas_are_fresh():
    """docs/schemas is what the structs say now."""
    tool = ROOT / "tools" / "generate-schemas"
    ended = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_schema_is_a_schema_and_is_printed(name):
    """`firstfault schema NAME` prints the published file."""
    validator(name)
    shown = CliRunner().invoke(app, ["schema", name], standalone_mode=False).stdout
    assert json.loads(shown) == json.loads((ROOT / "docs" / "schemas" / f"{name}.schema.json").read_text("utf-8"))


def test_names_are_listed_and_others_refused():
    """Without a name, the names; with another one, what there is."""
    assert CliRunner().invoke(app, ["schema"], standalone_mode=False).stdout.split() == list(SCHEMA_NAMES)
    assert printed("schema")["names"] == list(SCHEMA_NAMES)
    refused = CliRunner().invoke(app, ["schema", "nothing"], standalone_mode=False)
    assert "guard-lock" in str(refused.exception)


@pytest.mark.parametrize("logs", ["sg-block", "healthy", "nccl-cuda-oom"])
def test_triage_prints_what_its_schema_says(logs):
    """A fault of the network, a healthy run, a fault of the program."""
    validator("triage").validate(printed("triage", str(ROOT / "examples" / "logs" / logs)))


def test_explain_prints_what_its_schemas_say():
    """One card, all of them, and the few that begin alike."""
    validator("explain-card").validate(printed("explain", "workload.host.oom"))
    validator("explain").validate(printed("explain"))
    validator("explain").validate(printed("explain", "network.c10d."))


def test_audit_prints_what_its_schema_says(tmp_path):
    """With findings, suppressions, problems and notes."""
    (tmp_path / "a.yaml").write_text("a: [\n")
    (tmp_path / "values.yaml").write_text("x: 1\n")
    report = printed("audit", str(ROOT / "examples"), str(tmp_path))
    assert report["findings"]
    assert report["problems"]
    assert report["notes"]
    validator("audit").validate(report)


def test_checks_of_audit_print_what_their_schemas_say():
    """All of them, as many as there are, and one with an example of each side."""
    listed = printed("audit", "--list-checks")
    validator("audit-checks").validate(listed)
    assert [each["check"] for each in listed["checks"]] == list(load_checks())
    details = printed("audit", "--explain", "service-links-enabled")
    validator("audit-check").validate(details)
    assert details["check"] == "service-links-enabled"
    assert all(each["text"] for each in (*details["fails"], *details["passes"]))


def test_guard_prints_what_its_schemas_say(tmp_path):
    """The lock and the budget."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(PLAN))
    validator("guard-lock").validate(printed("guard", "lock", str(plan)))
    validator("guard-budget").validate(printed("guard", "budget"))


def test_smoke_prints_what_its_schema_says(monkeypatch):
    """An interface that does not exist is enough for a report with a verdict."""
    given = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "GLOO_SOCKET_IFNAME": "eth99"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    report = printed("smoke", "--wait", "0", "--backend", "gloo")
    assert report["verdict"]["cause"] == "network.gloo.interface"
    validator("smoke").validate(report)


def test_schema_refuses_what_is_not_a_report():
    """Another version, and a field of another type."""
    report = printed("triage", str(ROOT / "examples" / "logs" / "healthy"))
    for wrong in ({"schema": "firstfault.triage/2"}, {"status": "well"}, {"sources": 3}):
        with pytest.raises(jsonschema.ValidationError):
            validator("triage").validate({**report, **wrong})
