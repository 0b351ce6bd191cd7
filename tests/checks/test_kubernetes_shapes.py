"""Workloads as users write them: Pods are found inside objects of any kind, and their holes by name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.checks.cron import longest_pause_s
from firstfault.checks.engine import run_checks
from firstfault.checks.load import inventory_of_texts, load_inventory
from firstfault.checks.registry import load_checks
from firstfault.checks.workloads import distributed_pods

SHAPES = Path(__file__).parent / "shapes"

# The example of the PyTorchJob documentation's kind, with nothing added.
BARE_JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: bare
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              image: pytorch/pytorch
              command: [torchrun, train.py]
              resources:
                limits: {nvidia.com/gpu: 2}
"""


def failures(texts, *, complete=False):
    """Ids of the checks that fail on these files."""
    inventory = inventory_of_texts(texts, complete=complete)
    assert not inventory.problems
    return {item.check for item in run_checks(inventory, list(load_checks().values())) if item.result == "fail"}


@pytest.mark.parametrize(
    ("name", "gpu_pods", "distributed"),
    [
        ("kubeflow_pytorchjob.yaml", 1, 1),
        ("mpijob_nccl_tests.yaml", 1, 1),
        ("jobset.yaml", 1, 1),
        ("leaderworkerset_vllm.yaml", 2, 2),
        ("vllm_production_stack.yaml", 1, 0),
        ("gpu_operator_rendered.yaml", 0, 0),
    ],
)
def test_pods_are_found_inside_any_kind(name, gpu_pods, distributed):
    """Templates in custom resources are Pods too: a shape without alarm was looked at, not passed over."""
    inventory = load_inventory([SHAPES / name])
    assert (len(inventory.gpu_pods), len(distributed_pods(inventory))) == (gpu_pods, distributed)


def test_the_bare_job_of_the_tutorials_has_the_usual_holes():
    """What everybody's first manifest lacks, each by its own check."""
    assert failures({"job.yaml": BARE_JOB}) >= {"image-tag-floats", "nccl-debug-silent", "shared-memory-too-small"}


def test_absence_is_a_finding_only_where_the_inputs_are_everything():
    """No smoke test among the inputs says nothing, unless the inputs are all there is."""
    missing = {"nccl-smoke-missing", "evidence-path-missing"}
    assert not missing & failures({"job.yaml": BARE_JOB})
    assert missing <= failures({"job.yaml": BARE_JOB}, complete=True)


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("*/15 * * * *", 900),
        ("*/45 * * * *", 2700),
        ("7,37 * * * *", 1800),
        ("0 * * * *", 3600),
        ("@hourly", 3600),
        ("@every 20m", 1200),
        ("0 9 * * mon-fri", 3 * 86400),
        ("0 0 1,15 * mon", 7 * 86400),
        ("not a schedule", None),
        ("61 * * * *", None),
        ("*/0 * * * *", None),
    ],
)
def test_longest_pause_of_a_schedule(schedule, seconds):
    """Between two runs: the worst case over nights, weekends and ends of hours."""
    assert longest_pause_s(schedule) == seconds


def test_rules_that_are_no_promql_are_left_alone():
    """A template in an expression is nobody's fault here: no crash, no finding."""
    rules = "groups:\n  - name: g\n    rules:\n      - {alert: A, expr: 'DCGM_X{{ .Values.x }} > 0', for: 1h}\n"
    assert failures({"rules.yaml": rules}) == set()


def test_what_guard_writes_passes_the_audit(tmp_path):
    """The guardrails of this program close the holes that its audit looks for, and open none."""
    command = [sys.executable, "-m", "firstfault", "guard", "render", "--out", str(tmp_path / "out")]
    subprocess.run(command, check=True, capture_output=True)
    findings = run_checks(load_inventory([tmp_path / "out"]), list(load_checks().values()))
    assert {(item.check, item.message) for item in findings if item.result == "fail"} == set()
    assert {"alert-uses-absent", "nccl-smoke-may-hang", "node-problem-detector-blind"} <= {
        item.check for item in findings
    }
