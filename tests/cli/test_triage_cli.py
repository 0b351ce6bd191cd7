"""The verb triage as a person runs it: exit codes, JSON of the contract, hostile lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "logs"


def firstfault(*arguments, stdin=b""):
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "firstfault", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        ([EXAMPLES / "sg-block"], b"", 1),
        ([EXAMPLES / "gloo-healthy"], b"", 0),
        (["-"], b"", 3),
        (["-"], b"the quick brown fox\n", 3),
        (["/nowhere/at/all"], b"", 2),
        (["/nowhere/at/all", EXAMPLES / "sg-block"], b"", 2),
        ([], b"", 2),
        (["--format", "xml", "-"], b"", 2),
    ],
)
def test_exit_codes(arguments, stdin, code):
    """Each outcome has its exit code; an unreadable input wins over a fault, and nobody sees a traceback."""
    done = firstfault("triage", *arguments, stdin=stdin)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr


def test_a_missing_path_is_named_and_the_others_are_read():
    """One bad path is reported on standard error; the report on the others is there."""
    done = firstfault("triage", "/nowhere/at/all", EXAMPLES / "sg-block", "--format", "json")
    report = json.loads(done.stdout)
    assert report["verdict"]["cause"] == "network.c10d.unreachable"
    assert b"/nowhere/at/all" in done.stderr
    assert "/nowhere/at/all" in report["problems"][0]


def test_json_of_the_contract(tmp_path):
    """Every field of the contract is there, and --output writes the same to a file."""
    target = tmp_path / "report.json"
    firstfault("triage", EXAMPLES / "sg-block", "--format", "json", "--output", target)
    report = json.loads(target.read_text())
    assert report["schema"] == "firstfault.triage/1"
    assert {"status", "verdict", "others", "ladder", "sources", "missing"} <= set(report)
    verdict = report["verdict"]
    wanted = "cause layer title confidence summary transport evidence consequences ruled_out next_steps fix prevention"
    assert set(wanted.split()) <= set(verdict)
    assert {"source", "line", "offset", "text", "role", "rank", "time"} <= set(verdict["evidence"][0])
    assert {"ranks", "reached", "stopped_at", "why"} <= set(report["ladder"]["groups"][0])
    assert report["ladder"]["groups"][0]["ranks"] == [[0, 0]]
    assert report["sources"][0]["bytes"] > 0


def test_unknown_says_what_is_missing():
    """Nothing recognised: the report names what would decide, with the command that gets it."""
    report = json.loads(firstfault("triage", "-", "--format", "json", stdin=b"hello\n").stdout)
    assert report["status"] == "unknown"
    assert report["verdict"] is None
    assert all(item["command"] for item in report["missing"])
    assert report["missing"]


@pytest.mark.parametrize("format_", ["text", "json"])
def test_hostile_lines_are_shown_and_never_acted_upon(format_):
    """Escape sequences, controls and workflow commands of a log do not reach a terminal or CI runner."""
    line = (
        b"\x1b]0;owned\x07\x1b[2J::error file=x::boom ##[error]x \x9b31m "
        b"torch.distributed.DistNetworkError: The client socket has timed out after 5000ms while trying to connect to"
        b" (\x1b[31mmaster\x1b[0m, 29500). AKIAIOSFODNN7EXAMPLE\n"
    )
    done = firstfault("triage", "-", "--format", format_, stdin=b"::error::first\n" + line)
    assert done.returncode == 1
    assert not any(byte < 32 and byte != 10 for byte in done.stdout)
    assert b"\xc2\x9b" not in done.stdout
    assert b"##[" not in done.stdout
    assert b"AKIAIOSFODNN7EXAMPLE" not in done.stdout
    assert not any(row.lstrip().startswith(b"::error") for row in done.stdout.splitlines())
    assert b"The client socket has timed out" in done.stdout


def test_explain():
    """A card by id, by alias, by beginning; an unknown one is a usage error that says how to list them."""
    assert b"Fix" in firstfault("explain", "network.c10d.unreachable").stdout
    assert json.loads(firstfault("explain", "network.c10d.unreachable", "--format", "json").stdout)["id"]
    assert b"network.c10d.refused" in firstfault("explain", "network.c10d").stdout
    assert len(firstfault("explain").stdout.splitlines()) > 100
    unknown = firstfault("explain", "network.no.such")
    assert unknown.returncode == 2
    assert b"firstfault explain" in unknown.stderr
