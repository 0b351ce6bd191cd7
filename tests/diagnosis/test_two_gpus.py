"""Logs and dumps of two real GPUs, one rank on each: NCCL 2.28.9, torch 2.11, two H200 joined by NVLink.

Recorded by `tools/gpu-drills --devices 2`: once both ranks in one node, then each in a network namespace of its own with
an NCCL_HOSTID of its own, so that NCCL sees two nodes and uses sockets. Paths and GPU ids are replaced.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault import triage

FOLDER = Path(__file__).parent / "two_gpus"
CAUSES = {
    "sg-block": {"network.c10d.unreachable"},
    "master-port-only": {"network.nccl.bootstrap-unreachable"},
    "mid-run-cut": {"network.nccl.transport-unreachable"},
    "rank-stopped": {"workload.collective.straggler"},
    "rank-killed": {"workload.signal.killed"},
    "collective-type-mismatch": {"workload.collective.mismatch"},
    "collective-size-mismatch": {"workload.collective.mismatch"},
}


def test_every_recording_has_an_expectation():
    assert {path.name for path in FOLDER.iterdir()} == {*CAUSES, "two-gpus-one-node"}


@pytest.mark.parametrize("name", CAUSES)
def test_fault_between_two_gpus_is_named(name):
    """The verdict is the injected cause, and it cites lines."""
    report = triage([FOLDER / name])
    assert report.status == "fault"
    assert report.verdict.cause in CAUSES[name]
    assert report.verdict.evidence


def test_nvlink_between_two_gpus_of_one_node_is_read_from_the_channels():
    """P2P/CUMEM channels are NVLink or PCIe between GPUs of one node; nothing is wrong."""
    report = triage([FOLDER / "two-gpus-one-node"])
    assert report.status == "healthy"
    used = {option.name for option in report.transport.considered if option.used}
    assert "NVLink/P2P" in used


def test_between_nodes_nvlink_is_argued_away_and_the_socket_is_chosen():
    """The same two GPUs, seen as two nodes."""
    report = triage([FOLDER / "mid-run-cut"])
    options = {option.name: option for option in report.transport.considered}
    assert report.transport.chosen == "TCP socket"
    assert not options["NVLink/P2P"].used
    assert not options["IB/RDMA"].used


@pytest.mark.parametrize("form", ["txt", "json"])
def test_answer_of_ras_about_a_stuck_job_names_the_rank_that_is_missing(tmp_path, form):
    """NCCL RAS of the rank that waits, asked while the other one was stopped; no log beside it."""
    answer = FOLDER / "rank-stopped" / f"nccl-ras.nccl-master-0.{form}"
    (tmp_path / answer.name).write_bytes(answer.read_bytes())
    report = triage([tmp_path])
    text = " ".join(each.text for each in report.verdict.evidence)
    assert report.verdict.layer in ("workload", "network")
    assert "missing ranks=[1]" in text or "ranks=1" in text or "Rank 1" in text
