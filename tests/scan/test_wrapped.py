"""Messages that a paste broke over several lines are read as if it had not."""

from __future__ import annotations

import io

import pytest

from firstfault.scan import Source, scan_sources
from firstfault.scan.wrapped import whole_messages


def _texts(text: str) -> list[str]:
    return [line.text for line in whole_messages(text)]


def _causes(text: str) -> set[str]:
    data = text.encode()
    return {
        one.cause for one in scan_sources([Source("paste.txt", lambda: io.BytesIO(data), size=len(data))]).observations
    }


def test_apostrophes_of_yaml_are_single_again():
    """Within single quotes YAML doubles an apostrophe; a paste of such a line is no document."""
    line = "    message: '0/4 nodes are available: 4 node(s) didn''t match Pod''s node affinity/selector.'"
    assert _texts(line) == [line.strip().replace("''", "'")]
    assert "infra.node.no-gpu" in _causes(line)


def test_an_empty_string_stays_empty():
    """Two apostrophes that stand alone are a value, not an apostrophe."""
    assert _texts("  priorityClassName: ''") == []


def test_a_value_that_goes_on_is_one_message():
    """A folded value ends where its quotes do."""
    text = "  message: '0/3 nodes are available: 3 node(s) had untolerated\n    taint {nvidia.com/gpu: present}.'\n  reason: Unschedulable"
    (message,) = whole_messages(text)
    assert message.text.endswith("had untolerated taint {nvidia.com/gpu: present}.'")
    assert (message.line, message.offset) == (1, 0)
    assert "infra.taint.untolerated" in _causes(text)


def test_a_message_cut_at_the_width_of_a_terminal_is_one_message():
    """What follows has no prefix of its own and goes on in the middle of a sentence."""
    text = "  Warning  FailedCreate  2m  job-controller  Error creating: pods is forbidden: error\n  looking up service account ml/trainer: serviceaccount not found"
    assert len(_texts(text)) == 1
    assert "infra.policy.denied" in _causes(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01 10:00:00 INFO a line of a log that is long enough to have been cut somewhere\n2026-03-01 10:00:01 INFO next",
        '  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/run.py", line 753, in run\n    elastic_launch(',
        "NAME                                            READY   STATUS             RESTARTS       AGE\ntrain-0   1/1",
        "step 100 loss 2.31 learning rate 0.0003 tokens per second 12000 memory 71 GiB elapsed 17\nstep 101 loss 2.30",
        (
            "export NCCL_DEBUG=INFO; export NCCL_SOCKET_IFNAME=eth0; torchrun --nnodes=2 --nproc_per_node=8 train.py\n"
            "model=llama"
        ),
    ],
)
def test_lines_of_their_own_are_left_apart(text):
    """Logs, tables, traces and settings are lines already."""
    assert _texts(text) == []


@pytest.mark.parametrize(
    "second",
    [
        "[2024-10-22T12:30:02.908] auth/jwt: created token for root",
        "[ 3224.579687] nfs: server filer OK",
        '{"level":"INFO","message":"launched nodeclaim"}',
    ],
)
def test_a_line_with_its_own_time_or_object_does_not_go_on(second: str):
    """What begins with a time in brackets or as an object is a message of its own, however long the line before is."""
    first = "[2024-10-22T12:26:56.001] POWER: power_save: waking nodes sp-r7a-m-dy-sp-8-gb-1-cores-1"
    assert _texts(f"{first}\n{second}") == []
