"""Smoke between two real hosts: each fault is named at its own rung, and a good network passes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import msgspec
import pytest

from firstfault.model.smoke import SmokeReport
from firstfault.report.smoke import render_smoke

from .conftest import MASTER_ONLY, OUT

pytestmark = [pytest.mark.netns, pytest.mark.torch, pytest.mark.slow]


def rung_of(report):
    return next((each["rung"] for each in report["rungs"] if each["ok"] is False), None)


def cause_of(found, rank=1):
    code, report, text = found[rank]
    assert report is not None, text
    assert code == 1, (report, text)
    return rung_of(report), report["verdict"]["cause"]


def test_good_network_passes_every_rung(pair):
    """A right sum over gloo, both ways on both kinds of port, and the metrics say success."""
    found = pair.run("--textfile", str(pair.folder / "smoke.prom"), ranks=(0, 1), wait=30)
    for code, report, text in found.values():
        assert code == 0, text
        assert report["status"] == "ok"
        assert [each["rung"] for each in report["rungs"] if each["ok"]] == [
            "name",
            "tcp",
            "store",
            "init",
            "collective",
            "bandwidth",
        ]
        assert report["bus_bandwidth"] > 0
    metrics = (pair.folder / "smoke.prom").read_text()
    assert 'firstfault_smoke_success{node="node-' in metrics
    assert 'rung="collective"' in metrics


def test_silent_drop_is_named_at_the_master_port(pair):
    pair.rules = [OUT]
    found = pair.run()
    assert cause_of(found) == ("tcp", "network.c10d.unreachable")
    assert any("dropped" in each["text"] for each in found[1][1]["verdict"]["evidence"])
    assert cause_of(found, rank=0) == ("tcp", "network.c10d.missing-ranks")


def test_reject_is_told_from_drop(pair):
    pair.rules, pair.reject = [OUT], True
    assert cause_of(pair.run()) == ("tcp", "network.c10d.refused")


def test_blocked_mesh_is_named_though_the_master_port_is_open(pair):
    """The half-open group: rendezvous would pass, the backend would hang."""
    pair.rules = [MASTER_ONLY, OUT]
    found = pair.run(wait=30)
    assert cause_of(found) == ("tcp", "network.gloo.unreachable")
    assert cause_of(found, rank=0) == ("tcp", "network.gloo.unreachable")


def test_name_that_does_not_resolve(pair):
    pair.hosts = "127.0.0.1 localhost\n192.168.10.11 node-a\n192.168.10.12 node-b\n"
    assert cause_of(pair.run(ranks=(1,))) == ("name", "network.dns.unresolved")


def test_interface_that_does_not_exist(pair):
    found = pair.run(ranks=(1,), env={"GLOO_SOCKET_IFNAME": "eth7"})
    assert cause_of(found) == ("tcp", "network.gloo.interface")
    assert "eth7" in found[1][1]["verdict"]["evidence"][0]["text"]


def test_rank_that_never_comes(pair):
    assert cause_of(pair.run(ranks=(0,), wait=2), rank=0) == ("tcp", "network.c10d.missing-ranks")


def test_wrapped_program_that_fails_is_triaged_and_keeps_its_code(pair):
    """The preflight passes, the program raises: its output is there, its cause is named, its exit code is kept."""
    program = pair.folder / "train.py"
    program.write_text("print('step 1')\nraise ValueError('bad batch')\n")
    found = pair.run("--wrap", wait=30, program=("--", "python3", str(program)))
    for code, _, text in found.values():
        assert code == 1
        assert "step 1" in text
        assert "workload.rank.exception" in text


@pytest.mark.parametrize("victim", [1, 0])
def test_rank_that_dies_after_the_tcp_rung_is_named_at_once(pair, victim):
    """The backend would wait for it until its own timeout; its connection of the TCP rung tells that it is gone."""
    other = 1 - victim
    found = pair.run(wait=30, env={"PYTHONPATH": str(pair.dying(victim))})
    code, report, text = found[other]
    assert code == 1, text
    assert report["verdict"]["cause"] == ("network.c10d.missing-ranks" if victim else "network.c10d.store-lost")
    assert f"rank {victim} went away" in report["verdict"]["summary"]
    assert rung_of(report) in {"store", "init"}
    failed = next(each for each in report["rungs"] if each["ok"] is False)
    assert failed["seconds"] < 30, "sooner than any timeout of the backend"


def test_rank_that_gives_up_tells_the_others_why(pair):
    """The others repeat its cause instead of waiting for it."""
    found = pair.run("--wait", "30", env={"PYTHONPATH": str(pair.dying(1, "raise OSError('no device')"))})
    _, report, text = found[0]
    assert report["status"] in {"fault", "unknown"}, text
    assert "rank 1" in next(each["why"] for each in report["rungs"] if each["ok"] is False)


def test_rank_that_is_told_to_end_tells_the_others(pair):
    """The others blame neither the network nor anything else, and say where to look."""
    found = pair.run(wait=30, env={"PYTHONPATH": str(pair.dying(1, "os.kill(os.getpid(), signal.SIGTERM)"))})
    assert found[1][0] == 128 + signal.SIGTERM, found[1]
    code, report, text = found[0]
    assert (code, report["status"]) == (3, "unknown"), text
    shown = render_smoke(msgspec.convert(report, SmokeReport), "text")
    assert "rank 1 gave up: it was interrupted" in shown
    assert shown.splitlines()[-1].startswith("unknown: this rank could not go on without rank 1; look there")


def test_program_that_cannot_be_started_is_said_also_into_a_file(tmp_path):
    """The preflight's result and the reason are both there when standard error is a file."""
    own = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29717"}
    path = os.pathsep.join(filter(None, sys.path))
    arguments = ["smoke", "--backend", "gloo", "--wrap", "--", "/nonexistent/train"]
    with (tmp_path / "err").open("wb") as errors:
        ended = subprocess.run(
            [sys.executable, "-m", "firstfault", *arguments],
            env={**os.environ, **own, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=errors, check=False,
        )  # fmt: skip
    assert ended.returncode == 2
    assert ended.stdout == b""
    said = (tmp_path / "err").read_text()
    assert said.index("every rung was climbed") < said.index("/nonexistent/train: cannot be started")
