"""The main job with real PyTorch: sg-block and its variants, through the command line, as root and as anybody."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.users import ordinary_user  # noqa: F401 - a fixture

pytestmark = [
    pytest.mark.netns,
    pytest.mark.torch,
    pytest.mark.usefixtures("netns"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
]
SUMS = [3.0, 6.0, 12.0, 24.0, 48.0]
WEBHOOKS = {4443, 6443, 8443, 9443, 10251}


def run(*arguments, state):
    """Run a drill by the command line; return exit code and report."""
    env = {**os.environ, "FIRSTFAULT_STATE": str(state), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(
        [sys.executable, "-m", "firstfault", "drill", "run", *arguments, "--backend", "gloo", "--format", "json"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def sums(phase):
    return [rank["sums"] for rank in phase["ranks"]]


def reachable(phase, ports):
    return {probe["reachable"] for probe in phase["probes"] if probe["port"] in ports}


def assert_the_main_job(report):
    """Everything that the write-up saw, measured."""
    baseline, injected, restored = report["phases"]
    assert sums(baseline) == sums(restored) == [SUMS, SUMS]
    assert sums(injected) == [[], []]
    assert all(rank["exit_code"] not in {0, None} for rank in injected["ranks"])
    before = {"node": {"ingress": 10, "egress": 1}, "aux": {"ingress": 1, "egress": 1}}
    assert baseline["firewall"] == restored["firewall"] == before
    assert injected["firewall"] == {"node": {"ingress": 4, "egress": 0}, "aux": {"ingress": 0, "egress": 1}}
    assert [reachable(phase, WEBHOOKS) for phase in report["phases"]] == [{True}, {False}, {True}]
    assert [reachable(phase, {53, 443, 10250}) for phase in report["phases"]] == [{True}] * 3
    assert [reachable(phase, {29500, 41000}) for phase in report["phases"]] == [{True}, {False}, {True}]
    assert report["verdict"]["cause"] == "network.c10d.unreachable"
    assert any("1/2 clients joined" in evidence["text"] for evidence in report["verdict"]["evidence"])
    assert {group["stopped_at"] for group in report["ladder"]["groups"]} == {"store"}
    assert report["change"]["summary"] == "0 to add, 0 to change, 8 to destroy"
    guesses = {row["item"]: row["match"] for row in report["expected_vs_measured"] if row["basis"] == "prediction"}
    assert guesses["point of failure"] == "no"
    assert {row["match"] for row in report["expected_vs_measured"] if row["basis"] == "scenario"} == {"yes"}
    assert report["restored"] is True
    assert report["left_behind"] == []


def test_main_job(state):
    """Baseline, cut, named from the logs alone, restored: exit code 0."""
    code, report = run("sg-block", state=state)
    assert_the_main_job(report)
    assert code == 0
    assert report["schema"] == "firstfault.drill/1"


def test_main_job_as_an_ordinary_user(ordinary_user):  # noqa: F811 - the fixture
    """Without any privilege, the same result."""
    ended = ordinary_user.run("drill", "run", "sg-block", "--backend", "gloo", "--format", "json")
    if "Nothing was changed" in ended.stderr:
        pytest.skip(ended.stderr)
    assert ended.returncode == 0, ended.stderr
    assert_the_main_job(json.loads(ended.stdout))


@pytest.mark.slow
def test_fresh_interpreters_give_the_same_result(state):
    """Ranks that are started anew, as a Pod would, end in the same verdict as ranks that are forked."""
    code, report = run("sg-block", "--fresh", state=state)
    assert_the_main_job(report)
    assert code == 0


@pytest.mark.slow
@pytest.mark.parametrize(("toggle", "ingress"), [("aux", (10, 0)), ("node", (4, 1))])
def test_each_toggle_alone_leaves_training_alive(state, toggle, ingress):
    """The hidden allow path: with either rule alone, both ranks print all sums."""
    code, report = run("sg-block", "--toggle", toggle, state=state)
    injected = report["phases"][1]
    assert sums(injected) == [SUMS, SUMS]
    assert (injected["firewall"]["node"]["ingress"], injected["firewall"]["aux"]["ingress"]) == ingress
    assert report["status"] == "healthy"
    assert code == 0


@pytest.mark.slow
def test_reject_is_told_from_drop(state):
    """The final text of PyTorch is the same; the retry lines tell that somebody answered."""
    code, report = run("sg-block", "--reject", state=state)
    assert report["verdict"]["cause"] == "network.c10d.refused"
    assert {probe["result"] for probe in report["phases"][1]["probes"] if probe["port"] == 29500} == {"refused"}
    assert code == 0


@pytest.mark.slow
def test_torchrun_fails_before_the_program_starts(state):
    """With a launcher the agents' rendezvous is the first rung that needs the network."""
    code, report = run("sg-block", "--launcher", "torchrun", state=state)
    rows = {row["item"]: row for row in report["expected_vs_measured"]}
    assert rows["the first rank stops at"]["measured"] == "agent-rendezvous"
    assert report["verdict"]["cause"] == "network.c10d.unreachable"
    logs = Path(report["logs"]) / "attempt-2"
    assert not any("[init]" in (logs / rank["log"]).read_text() for rank in report["phases"][1]["ranks"])
    assert code == 0


@pytest.mark.slow
def test_own_program(state, tmp_path):
    """The user's own training script is drilled the same way; without sums there is no row about sums."""
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch, torch.distributed as dist\n"
        "from datetime import timedelta\n"
        "dist.init_process_group('gloo', timeout=timedelta(seconds=int(sys.argv[2])))\n"
        "dist.barrier()\n"
        "print('trained', flush=True)\n"
    )
    code, report = run("sg-block", "--program", str(script), state=state)
    assert report["verdict"] is not None, "a program that fails in the baseline is diagnosed"
    assert code == 1
    env = {**os.environ, "FIRSTFAULT_STATE": str(state), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = ["-m", "firstfault", "drill", "run", "sg-block", "--backend", "gloo", "--format", "json"]
    ended = subprocess.run(
        [sys.executable, *command, "--program", str(script), "--", "--timeout", "15"],
        env=env, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    report = json.loads(ended.stdout)
    assert report["verdict"]["cause"] == "network.c10d.unreachable"
    assert not any(row["item"].startswith("sums") for row in report["recovery"])
    assert ended.returncode == 0
