"""Runs triage on recorded and composed cases kept beside this file, in the corpus format of benchmarks/accuracy.py.

gloo.jsonl was recorded from real torch 2.13.0 processes in two network namespaces; observability.jsonl is composed.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from firstfault.diagnosis import diagnose
from firstfault.scan import Source, scan_sources

CASES = [
    json.loads(line)
    for path in sorted((Path(__file__).parent / "cases").glob("*.jsonl"))
    for line in path.read_text().splitlines()
]


def triage(files):
    """Scan and diagnose texts given by name."""
    return diagnose(
        scan_sources(
            [
                Source(name, lambda text=text: io.BytesIO(text.encode()), size=len(text.encode()), reopenable=True)
                for name, text in files.items()
            ]
        )
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case_gets_its_cause(case):
    """Each case is given its own cause, or one that its label accepts."""
    report = triage(case["files"])
    assert report.status == "fault"
    assert report.verdict.cause in {case["cause"], *case["also_ok"]}


@pytest.mark.parametrize("case", [case for case in CASES if "stops" in case], ids=lambda case: case["id"])
def test_case_stops_on_its_rungs(case):
    """An agent that cannot reach the store stops before its program, whatever the store's lines say."""
    groups = triage(case["files"]).ladder.groups
    stops = {
        str(rank): group.stopped_at for group in groups for low, high in group.ranks for rank in range(low, high + 1)
    }
    assert stops == case["stops"]


class TestP2PHang:
    """Communicators over P2P that are complete, and then nothing."""

    LOG = (
        "w:1:2 [0] NCCL INFO Channel 00/0 : 0[01000] -> 1[61000] via P2P/direct pointer\n"
        "w:1:2 [0] NCCL INFO comm 0x5583 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\n"
    )
    BUSY = "|  0%   38C    P2    75W / 450W |   1014MiB / 24564MiB |     99%      Default |\n" * 2
    IDLE = BUSY.replace("99%", " 0%")

    def test_busy_gpus_tell_it(self):
        """Busy GPUs beside a log that just ends point at peer-to-peer copies."""
        report = triage({"rank0.log": self.LOG, "nvidia-smi.txt": self.BUSY})
        assert report.verdict.cause == "network.nccl.p2p-broken"

    def test_idle_gpus_do_not(self):
        """Idle GPUs say nothing of the kind."""
        report = triage({"rank0.log": self.LOG, "nvidia-smi.txt": self.IDLE})
        assert report.status != "fault"

    def test_progress_speaks_against_it(self):
        """A job whose GPUs are busy because it trains is no fault."""
        report = triage({"rank0.log": self.LOG + "iteration 10 loss 3.2\n", "nvidia-smi.txt": self.BUSY})
        assert report.status == "healthy"


def test_progress_does_not_excuse_a_slow_network():
    """Packet loss stays a finding although the job went on and finished."""
    loss = "1000 packets transmitted, 958 received, 4.2% packet loss, time 999123ms\n"
    report = triage({"job.log": loss + "iteration 10 loss 3.2\niteration 20 loss 3.1\n"})
    assert report.verdict.cause == "network.link.degraded"


def test_a_banner_of_the_driver_is_no_job_at_work():
    """nvidia-smi answers on a node where nothing runs, too."""
    banner = "| NVIDIA-SMI 535.104.05             Driver Version: 535.104.05   CUDA Version: 12.2     |\n"
    assert triage({"smi.txt": banner}).status == "unknown"
    assert triage({"smi.txt": banner, "rank0.log": "iteration 10 loss 3.2\n"}).status == "healthy"
