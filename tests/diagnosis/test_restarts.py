"""A job that failed and was started again in the same file, and worked from there on."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.diagnosis import triage

EXAMPLES = Path(__file__).parents[2] / "examples" / "logs"


def logs_of(*names):
    """The logs of examples one behind the other, both ranks of each."""
    return b"".join(path.read_bytes() for name in names for path in sorted((EXAMPLES / name).glob("*.log")))


@pytest.mark.parametrize(
    ("fault", "healthy"),
    [
        ("nccl-straggler", "nccl-healthy"),
        ("nccl-cuda-oom", "nccl-healthy"),
        ("nccl-rank-killed", "nccl-healthy"),
        ("nccl-interface", "nccl-healthy"),
        ("gloo-rank-exception", "gloo-healthy"),
        ("gloo-store-refused", "gloo-healthy"),
        ("sg-block", "healthy"),
        ("nccl-packet-loss", "healthy"),
    ],
)
def test_a_job_that_works_after_its_restart_still_names_the_fault(tmp_path, fault, healthy):
    """The cause is that of the run that failed; how sure it is, and the summary, say that the job got over it."""
    (tmp_path / "fault.log").write_bytes(logs_of(fault))
    (tmp_path / "both.log").write_bytes(logs_of(fault, healthy))
    alone, both = triage([tmp_path / "fault.log"]), triage([tmp_path / "both.log"])
    assert both.status == "fault"
    assert both.verdict.cause == alone.verdict.cause
    assert both.verdict.confidence < 0.8
    assert "started again at" in both.verdict.summary


@pytest.mark.parametrize("names", [("nccl-healthy", "nccl-healthy"), ("gloo-healthy", "gloo-healthy")])
def test_a_healthy_job_that_was_started_twice_is_healthy(tmp_path, names):
    """A second start is no fault."""
    (tmp_path / "job.log").write_bytes(logs_of(*names))
    assert triage([tmp_path / "job.log"]).status == "healthy"


@pytest.mark.parametrize("names", [("nccl-healthy", "nccl-cuda-oom"), ("nccl-cuda-oom", "nccl-cuda-oom")])
def test_a_job_that_fails_after_its_restart_got_over_nothing(tmp_path, names):
    """Where the last start failed too, nothing speaks of a job at work."""
    (tmp_path / "job.log").write_bytes(logs_of(*names))
    report = triage([tmp_path / "job.log"])
    assert report.verdict.cause == "workload.cuda.oom"
    assert "started again" not in report.verdict.summary


@pytest.mark.parametrize("fault", ["nccl-packet-loss", "nccl-rank-killed", "nccl-bootstrap-blocked"])
def test_an_earlier_start_that_was_well_hides_nothing(tmp_path, fault):
    """A job that worked before its last start, which failed: the verdict is that of the last one."""
    (tmp_path / "fault.log").write_bytes(logs_of(fault))
    (tmp_path / "both.log").write_bytes(logs_of("nccl-healthy", fault))
    alone, both = triage([tmp_path / "fault.log"]), triage([tmp_path / "both.log"])
    assert (both.verdict.cause, both.verdict.confidence) == (alone.verdict.cause, alone.verdict.confidence)
