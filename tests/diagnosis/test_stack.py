"""What lines about nodes and the GPU stack say together."""

from __future__ import annotations

import io

import pytest

from firstfault.diagnosis import triage

WAITING = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
FULL = "node a allocatable nvidia.com/gpu=8 capacity nvidia.com/gpu=8 gpu.present=true"
BARE = "node a allocatable nvidia.com/gpu=none capacity nvidia.com/gpu=none gpu.present=unset"
OFF = "node a allocatable nvidia.com/gpu=0 capacity nvidia.com/gpu=8 gpu.present=true"
DRIVER_FAILS = "Could not resolve Linux kernel version"
AUTOMATIC = "                    eks.amazonaws.com/compute-type=auto"


def cause(*lines):
    """The first cause that triage names, or its status when it names none."""
    report = triage(["-"], stdin=io.BytesIO("\n".join(lines).encode()))
    return report.verdict.cause if report.verdict else report.status


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((WAITING, FULL), "infra.gpu.exhausted"),
        ((WAITING, BARE), "infra.node.no-gpu"),
        ((WAITING, OFF), "driver.plugin.allocatable-zero"),
        ((DRIVER_FAILS, AUTOMATIC), "infra.automode.driver-conflict"),
        ((DRIVER_FAILS,), "driver.operator.driver-failed"),
    ],
)
def test_what_the_lines_say_together(lines, expected):
    assert cause(*lines) == expected
    assert cause(*reversed(lines)) == expected


def test_a_managed_node_alone_is_no_fault():
    assert cause(AUTOMATIC) != "infra.automode.driver-conflict"


def test_a_free_gpu_without_a_waiting_pod_is_no_fault():
    assert cause(FULL) == "healthy"
