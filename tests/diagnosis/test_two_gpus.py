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
    # A stopped rank writes no dump and no line: that it was late is not in the logs, only that the other one waited.
    "rank-stopped": {"workload.collective.straggler", "workload.collective.timeout"},
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
