"""What several XID lines mean together."""

from __future__ import annotations

import re

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.diagnosis import triage
from firstfault.diagnosis.xid import recovery_action, settle_xids
from firstfault.model import Observation, Role


def seen(text, source="dmesg"):
    """The observations that the catalogue's XID cards make of one kernel line."""
    found = []
    for card in load_catalogue().cards.values():
        if not card.id.startswith("driver."):
            continue
        for signature in card.signatures:
            match = re.search(signature.pattern, text)
            if match and "xid" in match.groupdict() and not (signature.unless and re.search(signature.unless, text)):
                found.append(
                    Observation(
                        signature=f"{card.id}/{signature.id}",
                        cause=card.id,
                        role=signature.role,
                        strength=signature.strength,
                        source=source,
                        text=text,
                        fields={key: value for key, value in match.groupdict().items() if value is not None},
                    )
                )
    return found


def line(code, text="", gpu="0000:3b:00"):
    """A kernel line."""
    return f"NVRM: Xid (PCI:{gpu}): {code}, pid=4711, name=python3, {text}"


def roots(*texts, program=False):
    """Causes that are still roots after the policy was applied."""
    items = [item for text in texts for item in seen(text)]
    if program:
        items.append(
            Observation(
                signature="workload.cuda.illegal-access/x",
                cause="workload.cuda.illegal-access",
                role=Role.ROOT,
                strength=0.7,
                source="train.log",
                text="CUDA error: an illegal memory access was encountered",
            )
        )
    return {item.cause for item in settle_xids(items) if item.role is Role.ROOT}


def test_channel_removal_follows_the_other_xid():
    assert roots(line(45, "Ch 00000001"), line(119, "Timeout waiting for RPC from GSP!")) == {"driver.xid.119"}


@pytest.mark.parametrize(
    ("code", "cause"),
    [(149, "driver.xid.149"), (79, "driver.gpu.fallen-off"), (48, "driver.ecc.uncorrectable"), (31, "driver.xid.31")],
)
def test_channel_removal_that_names_its_cause_is_a_report_of_that_one(code, cause):
    assert roots(line(45, f"Ch 00000001 caused by previous Xid {code}")) == {cause}


def test_a_context_that_does_not_switch_follows_the_program_s_error_on_the_same_gpu_only():
    hung = "errorString CTX SWITCH TIMEOUT, Info 0x58005"
    assert roots(line(13, "Graphics SM Warp Exception"), line(109, hung)) == {"driver.xid.13"}
    assert roots(line(109, hung), line(13, "Graphics SM Warp Exception")) == {"driver.xid.13", "driver.xid.109"}
    assert roots(line(13, "x", gpu="0000:9b:00"), line(109, hung)) == {"driver.xid.13", "driver.xid.109"}
    assert roots(line(109, hung)) == {"driver.xid.109"}


def test_channel_removal_alone_stays_a_weak_root():
    items = settle_xids(seen(line(45)))
    assert [(item.cause, item.role) for item in items] == [("driver.xid.45", Role.ROOT)]
    assert items[0].strength < 0.3


@pytest.mark.parametrize("code", [13, 31, 43])
def test_the_program_explains_its_own_xid(code):
    assert roots(line(code)) == {f"driver.xid.{code}"}
    assert roots(line(code), program=True) == {"workload.cuda.illegal-access"}


def test_the_program_does_not_explain_hardware():
    assert roots(line(79), program=True) == {"driver.gpu.fallen-off", "workload.cuda.illegal-access"}


def test_a_recorded_repair_follows_the_memory_error():
    assert roots(line(63)) == {"driver.xid.63"}
    assert roots(line(48), line(63)) == {"driver.ecc.uncorrectable"}
    assert "driver.xid.63" in roots(line(74), line(63)), "a link error does not retire pages"


def test_the_recovery_action_follows_what_made_it_necessary():
    text = "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
    assert roots(line(154, text)) == {"driver.gpu.reset-required"}
    assert roots(line(119), line(154, text)) == {"driver.xid.119"}


def test_re_engaged_power_smoothing_takes_the_alarm_back_on_the_same_gpu_only():
    assert roots(line(163), line(162)) == {"driver.xid.162"}
    assert "driver.xid.163" in roots(line(163, gpu="0000:3b:00"), line(162, gpu="0000:86:00"))
    assert "driver.xid.163" in roots(line(162), line(163)), "only a later line takes it back"


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ("0x1 (GPU Reset Required)", "reset"),
        ("0x2 (Node Reboot Required)", "reboot"),
        ("0x4 (Drain and Reset)", "drain-and-reset"),
        ("0x3 (Drain P2P)", "drain-p2p"),
        ("0x1 (PF FLR)", "reset"),
        ("0x2 (OS Reboot)", "reboot"),
        ("0x2 (GPU Reset Required)", "reset"),
        ("0x2 (something new)", "reboot"),
        ("0x9 (something new)", "unknown"),
        ("0x0 (None)", "none"),
    ],
)
def test_the_label_wins_over_the_number(words, action):
    found = recovery_action(line(154, f"GPU recovery action changed from 0x0 (None) to {words}"))
    assert found is not None
    assert found.action == action


def test_other_lines_have_no_recovery_action():
    assert recovery_action(line(79, "GPU has fallen off the bus.")) is None


def test_order_and_everything_else_is_left_alone():
    items = [*seen(line(31)), *seen(line(119))]
    assert settle_xids(items) == items


def test_any_code_may_name_the_one_that_it_follows():
    """Newer drivers end lines of every code so (kernel_rc.c, root cause)."""
    assert roots(line(43, "Ch 00000010 caused by previous Xid 145")) == {"driver.xid.145"}


def test_a_code_of_a_mig_instance_is_read():
    text = "NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 13, pid=7, name=python, Graphics SM Warp Exception"
    assert roots(text) == {"driver.xid.13"}


def test_steps_of_the_job_do_not_mend_a_gpu(tmp_path):
    """A node's log that holds kernel lines and training output in turn: what came after the fault is no excuse."""
    steps = "".join(f"step {n} loss 2.{n}\n" for n in range(20))
    fault = "[ 1000.1] NVRM: Xid (PCI:0000:19:00): 48, pid=1234, name=python3, DBE (double bit error) detected\n"
    log = tmp_path / "node.log"
    log.write_text(steps + fault + steps)
    report = triage([log])
    assert report.status == "fault"
    assert report.verdict.layer == "driver"
