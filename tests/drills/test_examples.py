"""The example logs give the answers that their README promises."""

from __future__ import annotations

from pathlib import Path

from firstfault import triage

LOGS = Path(__file__).parents[2] / "examples" / "logs"


def test_cut_rendezvous_is_named_by_the_formula():
    """NCCL would have spoken and did not, the store did: the rendezvous was cut before NCCL was entered."""
    report = triage([LOGS / "rendezvous-cut"])
    assert report.verdict.cause == "network.c10d.unreachable"
    assert "NCCL_DEBUG=INFO was set and there is no NCCL line" in report.verdict.summary


def test_healthy_job_is_healthy():
    """Both ranks went all the way, over TCP sockets."""
    report = triage([LOGS / "healthy"])
    assert report.status == "healthy"
    assert report.transport.chosen == "TCP socket"
