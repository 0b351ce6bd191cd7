"""The formula "no NCCL line, so NCCL was never entered" and each of its premises."""

from __future__ import annotations

import pytest

from firstfault.diagnosis import triage

BLOCKED = (
    "[E419 13:27:42.301344821 socket.cpp:1011] [c10d] The client socket has timed out after 120000ms while trying to"
    " connect to (nccl-master, 29500).\n"
)
ENTERED = "nccl-worker-0:1:1 [0] NCCL INFO Bootstrap: Using eth0:10.0.1.7<0>\n"


def verdict_on(tmp_path, text):
    path = tmp_path / "rank1.log"
    path.write_text(text)
    return triage([path]).verdict


def test_holds_where_nccl_would_have_spoken(tmp_path):
    """NCCL_DEBUG=INFO and silence: NCCL was never entered, and that rules out its bootstrap."""
    verdict = verdict_on(tmp_path, "env train/w-0/main NCCL_DEBUG=INFO\n" + BLOCKED)
    assert verdict.cause == "network.c10d.unreachable"
    assert "before NCCL was entered" in verdict.summary
    assert any(item.cause.startswith("network.nccl") and "never entered" in item.why for item in verdict.ruled_out)


@pytest.mark.parametrize(
    ("premise", "reason"),
    [
        ("", "no line shows that NCCL_DEBUG=INFO was set"),
        ("env t/w-0/m NCCL_DEBUG=WARN\n", "NCCL_DEBUG is WARN"),
        ("env t/w-0/m NCCL_DEBUG=INFO\nenv t/w-0/m NCCL_DEBUG_FILE=/tmp/nccl.log\n", "NCCL_DEBUG_FILE"),
        ("env t/w-0/m NCCL_DEBUG=INFO\nenv t/w-0/m NCCL_DEBUG_SUBSYS=COLL\n", "NCCL_DEBUG_SUBSYS"),
        ("env t/w-0/m NCCL_DEBUG=INFO\nInitializing process group backend=gloo world_size=2\n", "the backend is gloo"),
    ],
)
def test_says_which_premise_is_missing(tmp_path, premise, reason):
    """Where NCCL would have been silent anyway, the verdict stands but does not rest on silence."""
    verdict = verdict_on(tmp_path, premise + BLOCKED)
    assert verdict.cause == "network.c10d.unreachable"
    assert "proves nothing" in verdict.summary
    assert reason in verdict.summary


def test_is_not_used_where_nccl_spoke(tmp_path):
    """A line of NCCL ends the argument from silence."""
    verdict = verdict_on(tmp_path, "env t/w-0/m NCCL_DEBUG=INFO\n" + ENTERED + BLOCKED)
    assert "never entered" not in str(verdict.ruled_out)
