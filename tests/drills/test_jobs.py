"""How ranks are started: command lines and environment."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from firstfault.drills.jobs import processes
from firstfault.drills.scenario import Workload, find_topology
from firstfault.errors import InputError

EKS = find_topology("eks-two-nodes")


def start(workload=None, **fields):
    given = {
        "backend": "gloo",
        "launcher": "direct",
        "timeout": 5,
        "base": Path("/"),
        "temporary": Path("/t"),
        "environ": {},
    }
    return processes(workload or Workload(ranks=["node-a", "node-b"]), EKS, **{**given, **fields})


def test_ranks_get_what_torch_distributed_needs():
    """One process per rank, on its node, with the host name of its Pod in its log's name."""
    first, second = start()
    assert (first.node, second.node) == ("node-a", "node-b")
    assert [p.env["RANK"] for p in (first, second)] == ["0", "1"]
    assert first.env["WORLD_SIZE"] == "2"
    assert (first.env["MASTER_ADDR"], first.env["MASTER_PORT"]) == ("nccl-master", "29500")
    assert first.env["NCCL_HOSTID"] == "nccl-master-0"
    assert second.log == "rank-1.nccl-worker-0.log"


def test_several_ranks_share_a_node():
    """Local ranks count per node, global ranks over all."""
    found = start(Workload(ranks=["node-a", "node-a", "node-b"]))
    assert [(p.env["RANK"], p.env["LOCAL_RANK"], p.env["LOCAL_WORLD_SIZE"]) for p in found] == [
        ("0", "0", "2"),
        ("1", "1", "2"),
        ("2", "0", "1"),
    ]


def test_environment_of_other_jobs_is_left_out():
    """What a shell carries from another job must not decide what a drill shows; the rest is kept."""
    environ = {"NCCL_DEBUG": "TRACE", "MASTER_ADDR": "elsewhere", "RANK": "7", "GLOO_SOCKET_IFNAME": "x", "HOME": "/h"}
    first, _ = start(environ=environ)
    assert first.env["NCCL_DEBUG"] == "INFO"
    assert first.env["MASTER_ADDR"] == "nccl-master"
    assert "GLOO_SOCKET_IFNAME" not in first.env
    assert first.env["HOME"] == "/h"


def test_only_the_timeout_differs_between_phases():
    """The program is the same and does not know the phase."""
    calm, hurried = start(timeout=120)[0], start(timeout=5)[0]
    assert calm.argv == hurried.argv
    assert {key for key in calm.env if calm.env[key] != hurried.env[key]} == {"FIRSTFAULT_TIMEOUT"}


def test_torchrun_agents_rendezvous_with_the_same_timeout():
    """One agent per node; the program's name comes after the launcher's options."""
    first, second = start(Workload(ranks=["node-a", "node-b"]), launcher="torchrun")
    assert "--rdzv-endpoint=nccl-master:29500" in first.argv
    assert any("join_timeout=5" in part for part in first.argv)
    assert "--node-rank=1" in second.argv
    assert first.argv[-1].endswith("all_reduce.py")


def test_own_program_runs_with_its_arguments(tmp_path):
    """A .py file runs with this Python, an executable as it is."""
    script = tmp_path / "train.py"
    script.write_text("")
    tool = tmp_path / "train"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    python = start(Workload(ranks=["node-a"], program="train.py", args=["--x"]), base=tmp_path)[0].argv
    assert python == [sys.executable, "-u", str(script), "--x"]
    assert start(Workload(ranks=["node-a"], program=str(tool)))[0].argv == [str(tool)]


def test_missing_program_is_an_input_error(tmp_path):
    """The message names the file that is not there."""
    with pytest.raises(InputError, match=r"gone\.py"):
        start(Workload(ranks=["node-a"], program="gone.py"), base=tmp_path)
