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


class TestWhatAFileWasMadeFor:
    """Configuration and built files that do not fit, beside their loud consequences."""

    def test_gres_conf_without_device_files_is_the_configuration_and_no_lost_gpu(self):
        """GPUs without File= are dropped by slurmd, which then counts too few; they are there."""
        report = triage(
            {
                "slurmd.log": "[2025-03-01T10:00:00.123] warning: Ignoring file-less GPU gpu:(null) from final GRES list\n",
                "node.txt": "   State=IDLE+DRAIN+INVALID_REG ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A\n"
                "   Reason=gres/gpu count reported lower than configured (0 < 2) [slurm@2025-03-01T10:00:00]\n",
            }
        )
        assert report.verdict.cause == "infra.node.notready"
        assert "file-less" in report.verdict.evidence[0].text
        assert any("infra.node.no-gpu" in each for each in report.verdict.consequences)
        assert any("File=/dev/nvidia" in each for each in report.verdict.fix)

    def test_lost_gpu_is_still_a_lost_gpu(self):
        """A count that is lower, with no word about the file."""
        line = "slurmctld: error: Setting node gpu1 state to INVAL with reason:gres/gpu count reported lower than configured (3 < 4)\n"
        assert triage({"slurmctld.log": line}).verdict.cause == "infra.node.no-gpu"

    @pytest.mark.parametrize(
        "line",
        [
            "[TRT] [E] 6: The engine plan file is generated on an incompatible device, expecting compute 8.0 got compute 8.9.",
            "logging.cc:43] The engine plan file is not compatible with this version of TensorRT, expecting 5.1.2 got 5.1.5.",
        ],
    )
    def test_engine_of_another_gpu_or_version(self, line):
        """The server's words that the model was not loaded follow from it."""
        loaded = "I0530 23:11:46.3 1 model_lifecycle.cc:621] failed to load 'llama' version 1: Internal: unable to create TensorRT engine\n"
        verdict = triage({"triton.log": f"{line}\n{loaded}"}).verdict
        assert verdict.cause == "workload.cuda.arch-mismatch"
        assert verdict.title == "The TensorRT engine was built for another GPU or another version"

    def test_mig_layout_that_was_applied_after_the_managers_own_check_is_healthy(self):
        """The manager asserts the layout first: that it is not there yet is why it goes on."""
        asked = 'level=fatal msg="Assertion failure: selected configuration not currently applied"\n'
        done = "Applying the selected MIG config to the node\nMIG configuration applied successfully\n"
        assert triage({"mig-manager.log": asked + done}).status == "healthy"
        assert triage({"mig-manager.log": asked}).verdict.cause == "driver.mig.config"
