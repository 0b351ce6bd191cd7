"""Several runs in one input: each is diagnosed on its own, and only where they are surely several."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from firstfault.diagnosis import triage
from firstfault.diagnosis.runs import split_runs
from firstfault.scan import scan

EXAMPLES = Path(__file__).parents[2] / "examples" / "logs"
FAULTS = ("nccl-packet-loss", "nccl-bootstrap-blocked", "gloo-rank-exception", "sg-block", "nccl-straggler")


@pytest.mark.parametrize("healthy", ["healthy", "nccl-healthy", "gloo-healthy"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_healthy_run_takes_nothing_from_the_fault_of_another(healthy, fault):
    """The verdict on a run that failed is the same beside one that is well, and rests on its own lines."""
    alone, both = triage([EXAMPLES / fault]), triage([EXAMPLES / healthy, EXAMPLES / fault])
    assert both.status == "fault"
    assert (both.verdict.cause, both.verdict.confidence) == (alone.verdict.cause, alone.verdict.confidence)
    assert [item.source for item in both.verdict.evidence] == [item.source for item in alone.verdict.evidence]
    assert both.ladder == alone.ladder
    assert "2 runs" in both.verdict.summary
    assert "shows no fault" in both.verdict.summary
    assert len(both.sources) == 4


def test_two_healthy_runs_are_healthy():
    """Nothing is made up of two runs that are well."""
    assert triage([EXAMPLES / "nccl-healthy", EXAMPLES / "gloo-healthy"]).status == "healthy"


def test_of_two_faults_both_are_named():
    """Where two runs failed, one fault is the verdict and the other among the others."""
    report = triage([EXAMPLES / "nccl-cuda-oom", EXAMPLES / "gloo-rank-exception"])
    named = {report.verdict.cause, *(one.cause for one in report.others)}
    assert {"workload.cuda.oom", "workload.rank.exception"} <= named
    assert "failed too" in report.verdict.summary


def test_a_kernel_log_outside_of_the_runs_belongs_to_both(tmp_path):
    """What lies in no run's folder is evidence in each of them."""
    for name in ("nccl-healthy", "nccl-straggler"):
        shutil.copytree(EXAMPLES / name, tmp_path / name)
    (tmp_path / "dmesg.txt").write_text(
        "[ 1234.5] NVRM: Xid (PCI:0000:5d:00): 79, pid=1, name=python, GPU has fallen off the bus.\n", encoding="utf-8"
    )
    runs = split_runs(scan([tmp_path]))
    assert len(runs) == 2
    assert all(any(info.name.endswith("dmesg.txt") for info in run.result.sources) for run in runs)
    assert triage([tmp_path]).verdict.cause == "driver.gpu.fallen-off"


def test_a_folder_for_each_host_is_one_run(tmp_path):
    """One log for each rank, each in the folder of its host."""
    for rank in (0, 1):
        (tmp_path / f"node-{rank}").mkdir()
        shutil.copy(EXAMPLES / "nccl-straggler" / f"rank{rank}.log", tmp_path / f"node-{rank}" / f"rank{rank}.log")
    assert len(split_runs(scan([tmp_path]))) == 1
    assert triage([tmp_path]).verdict.confidence == triage([EXAMPLES / "nccl-straggler"]).verdict.confidence


@pytest.mark.parametrize("folders", [("attempt_0/0", "attempt_1/0"), ("previous", "current"), ("run", "run/restart")])
def test_attempts_of_one_run_are_not_taken_apart(tmp_path, folders):
    """Folders of torchrun's attempts, and what a restarted container printed before."""
    for folder, name in zip(folders, ("nccl-straggler", "nccl-healthy"), strict=True):
        shutil.copytree(EXAMPLES / name, tmp_path / folder, dirs_exist_ok=True)
    assert len(split_runs(scan([tmp_path]))) == 1
    for day, name in (("monday", "nccl-straggler"), ("tuesday", "nccl-healthy")):
        shutil.copytree(EXAMPLES / name, tmp_path / "days" / day / "0")
    assert len(split_runs(scan([tmp_path / "days"]))) == 2


def test_copies_of_the_same_logs_are_one_run(tmp_path):
    """The same logs from two places name the same communicators, or state the same ranks in the same words."""
    for name in ("nccl-straggler", "gloo-rank-exception"):
        for place in ("from-kubectl", "from-the-disk"):
            shutil.copytree(EXAMPLES / name, tmp_path / name / place)
        assert len(split_runs(scan([tmp_path / name]))) == 1


def test_communicators_of_subgroups_are_one_run(tmp_path):
    """Each machine numbers the ranks of its own first communicator from 0: that alone tells no two runs."""
    for node in range(3):
        folder = tmp_path / f"node-{node}"
        folder.mkdir()
        for rank in range(2):
            (folder / f"{rank}.log").write_text(
                f"node-{node}:1{rank}:1{rank} [{rank}] NCCL INFO ncclCommInitRankConfig comm 0x1{node}{rank} rank {rank}"
                f" nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank}0 commId 0x58e0eb8df9d889c{node} - Init START\n",
                encoding="utf-8",
            )
    assert len(split_runs(scan([tmp_path]))) == 1
