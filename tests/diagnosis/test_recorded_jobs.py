"""Real jobs, started when the test runs: two gloo ranks on loopback with one fault each. Their logs are the input."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.diagnosis import triage

pytest.importorskip("torch", reason="starts real torch.distributed processes")
pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("gloo_jobs")]

RECORDER = Path(__file__).parents[1] / "support" / "gloo_jobs.py"
EXPECTED = {
    "dropped": "network.c10d.unreachable",
    "refused": "network.c10d.refused",
    "unresolved": "network.dns.unresolved",
    "missing": "network.c10d.missing-ranks",
    "port-in-use": "network.c10d.port-in-use",
    "environment": "workload.env.missing",
    "raises": "workload.rank.exception",
    "dies": "workload.signal.killed",
    "interface": "network.gloo.interface",
}
STOPS = {"dropped": "store", "refused": "store", "unresolved": "name", "missing": "store", "interface": "mesh"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Record all jobs once, in one process tree that ends before the first test."""
    folder = tmp_path_factory.mktemp("jobs")
    record = [sys.executable, RECORDER, folder]
    subprocess.run(record, check=True, timeout=100, env=dict(os.environ))
    for _ in range(3):
        # A refused client ends its first attempt just before the time-out and makes a second one, unless the machine is
        # so busy that the time-out has passed meanwhile: then PyTorch prints what it prints of a dropped one.
        if "(try=1, " in (folder / "refused" / "rank1.log").read_text():
            break
        subprocess.run([*record, "refused"], check=True, timeout=100, env=dict(os.environ))
    return folder


@pytest.mark.parametrize(("job", "cause"), EXPECTED.items())
def test_cause_and_evidence(logs, job, cause):
    """The verdict names the injected fault, cites lines that are really there, and stops at the right rung."""
    report = triage([logs / job])
    assert report.status == "fault"
    assert report.verdict.cause == cause
    for item in report.verdict.evidence:
        data = Path(item.source).read_bytes()
        assert data[item.offset :].decode().startswith(item.text[:80])
        assert data[: item.offset].count(b"\n") + 1 == item.line
    if job in STOPS:
        assert STOPS[job] in {group.stopped_at for group in report.ladder.groups}


def test_healthy(logs):
    """The same program undisturbed is healthy, and has no verdict."""
    report = triage([logs / "healthy"])
    assert report.status == "healthy"
    assert report.verdict is None
    assert {group.stopped_at for group in report.ladder.groups} == {None}


def test_drop_is_not_claimed_for_a_refusal_nor_the_other_way(logs):
    """Both end in the same words; only the second attempt tells them apart."""
    final = "The client socket has timed out after"
    assert final in (logs / "dropped" / "rank1.log").read_text()
    assert final in (logs / "refused" / "rank1.log").read_text()
    assert triage([logs / "dropped"]).verdict.cause != triage([logs / "refused"]).verdict.cause


def test_silence_of_nccl_proves_nothing_without_its_premises(logs):
    """The verdict says that it rests on the store rung, since nothing shows that NCCL would have spoken."""
    summary = triage([logs / "dropped"]).verdict.summary
    assert "1/2 clients joined" in summary
    assert "proves nothing" in summary


@pytest.mark.parametrize("job", ["dropped", "raises", "missing"])
def test_renaming_hosts_ports_and_ranks_changes_nothing(logs, tmp_path, job):
    """Names are names: other hosts, ports and rank numbers give the same verdict."""
    folder = tmp_path / job
    shutil.copytree(logs / job, folder)
    for number, path in enumerate(sorted(folder.iterdir())):
        text = path.read_text()
        text = text.replace("127.0.0.1", "gpu-7.cluster").replace("host=", "host=x")
        text = re.sub(r"(?<=gpu-7\.cluster[:,])( ?)\d{4,5}", r"\g<1>31400", text)
        text = re.sub(r"\[rank ?(\d)\]", lambda found: found[0].replace(found[1], str(1 - int(found[1]))), text)
        text = re.sub(r"\brank=(\d)", lambda found: f"rank={1 - int(found[1])}", text)
        path.unlink()
        (folder / f"w{number}.txt").write_text(text)
    assert triage([folder]).verdict.cause == EXPECTED[job]
