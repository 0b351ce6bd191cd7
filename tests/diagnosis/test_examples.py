"""The saved logs under examples/ were recorded from real processes; what they show is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.diagnosis import diagnose, triage
from firstfault.scan import open_sources
from firstfault.scan.engine import ReEngine
from firstfault.scan.patterns import build_patterns
from firstfault.scan.scanner import Scanner

EXAMPLES = Path(__file__).parents[2] / "examples" / "logs"
EXPECTED = {
    "gloo-healthy": "",
    "gloo-interface": "network.gloo.interface",
    "gloo-missing-ranks": "network.c10d.missing-ranks",
    "gloo-rank-exception": "workload.rank.exception",
    "gloo-store-dropped": "network.c10d.unreachable",
    "gloo-store-refused": "network.c10d.refused",
    "healthy": "",
    "nccl-bootstrap-blocked": "network.nccl.bootstrap-unreachable",
    "nccl-collective-mismatch": "workload.collective.mismatch",
    "nccl-cuda-oom": "workload.cuda.oom",
    "nccl-cut-in-mid-run": "network.nccl.transport-unreachable",
    "nccl-healthy": "",
    "nccl-interface": "network.nccl.interface",
    "nccl-interface-loopback": "network.nccl.interface",
    "nccl-rank-exception": "workload.rank.exception",
    "nccl-rank-killed": "workload.signal.killed",
    "nccl-straggler": "workload.collective.straggler",
    "nccl-packet-loss": "network.link.degraded",
    "rendezvous-cut": "network.c10d.unreachable",
    "sg-block": "network.c10d.unreachable",
}


def test_every_example_is_known():
    """A new example needs its expected cause here."""
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(EXPECTED)


@pytest.mark.parametrize(("name", "cause"), EXPECTED.items())
def test_example(name, cause):
    """Each example gives its cause, or healthy."""
    report = triage([EXAMPLES / name])
    assert (report.verdict.cause if report.verdict else "") == cause
    assert report.status == ("fault" if cause else "healthy")


def test_one_rank_alone_names_what_is_not_there():
    """With the log of one rank only, the report says which ranks' logs are missing."""
    report = triage([EXAMPLES / "nccl-straggler" / "rank0.log"])
    assert any("ranks 1" in item.what for item in report.missing)


def test_transport_is_explained_from_lines():
    """Each transport has a reason, and the chosen one cites NCCL's own line."""
    transport = triage([EXAMPLES / "nccl-healthy"]).transport
    reasons = {option.name: option for option in transport.considered}
    assert transport.chosen == "TCP socket"
    assert "Using network Socket" in reasons["TCP socket"].evidence.text
    assert "NCCL_IB_DISABLE" in reasons["IB/RDMA"].why
    assert "localRanks 1" in reasons["NVLink/P2P"].why
    assert transport.considered[0].name == "NVLink/P2P"


def test_no_transport_where_nccl_is_silent():
    """Without a line of NCCL nothing is claimed about transports."""
    assert triage([EXAMPLES / "sg-block"]).transport is None


def test_same_bytes_same_report():
    """The report is a function of the input."""
    assert triage([EXAMPLES / "sg-block"]) == triage([EXAMPLES / "sg-block"])


@pytest.mark.parametrize("name", ["sg-block", "nccl-bootstrap-blocked", "nccl-straggler", "gloo-healthy"])
def test_without_hyperscan(name):
    """Where Hyperscan does not run, Python's own engine gives the same report."""
    patterns = build_patterns(load_catalogue())
    result = Scanner(patterns, ReEngine(patterns)).scan(open_sources([EXAMPLES / name]))
    usual = triage([EXAMPLES / name])
    report = diagnose(result)
    assert (report.status, report.verdict and report.verdict.cause) == (
        usual.status,
        usual.verdict and usual.verdict.cause,
    )
    assert report.ladder == usual.ladder
