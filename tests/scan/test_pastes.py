"""Text that was copied from a chat, a web page or a terminal is read as what it was."""

from __future__ import annotations

import gzip
import html
import random

import pytest

from firstfault.diagnosis import triage
from firstfault.scan.pastes import mend_paste

LOG = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 4551, in barrier
[rank1]:     work = group.barrier(opts=opts)
[rank1]: torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect to (train-master-0, 29500).
[2026-03-01 10:00:00] node-1:77:98 [0] misc/socket.cc:47 NCCL WARN socketPollConnect: connect to 10.0.1.7<40123> returned Connection timed out, exceeded error retry count
"""
SMI = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.86.15              Driver Version: 570.86.15      CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|   0  NVIDIA H200                    On  |   00000000:06:00.0 Off |                    0 |
| N/A   31C    P0             76W /  700W |       1MiB / 143771MiB |      0%      Default |
"""
PODS = """\
NAME              READY   STATUS    RESTARTS   AGE
trainer-master-0  1/1     Running   0          91m
trainer-worker-0  1/1     Running   0          91m
trainer-worker-1  0/1     Pending   0          91m
"""
STEPS = "".join(
    f"2026-03-01 10:00:{n:02d} INFO trainer.loop step {n + 100} loss 2.{n + 200} tokens per second 1{n}3\n"
    for n in range(10, 30)
)


def wrapped(text: str, width: int, end: str = "\n") -> str:
    """The text as a terminal shows it."""
    pieces = [line[at : at + width] for line in text.splitlines() for at in range(0, max(len(line), 1), width)]
    return "".join(piece + end for piece in pieces)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("width", [80, 100, 117])
def test_lines_that_a_terminal_cut_are_joined(width, end):
    """Each is whole again where it began, and no other line moved."""
    text = wrapped(LOG, width, end)
    mended = mend_paste(text.encode()).decode()
    assert len(mended) == len(text)
    found = [line.strip() for line in mended.splitlines() if line.strip()]
    assert found == [line.strip() for line in LOG.splitlines()]
    for line in found:
        assert mended.index(line) == text.index(line[: width - 8])


@pytest.mark.parametrize(
    "text", [LOG, SMI, PODS, STEPS, "", "\n\n", "one line"], ids=["log", "smi", "pods", "steps", "", "n", "one"]
)
def test_what_is_whole_stays(text):
    """Tables and counters have lines of one width, too."""
    assert mend_paste(text.encode()) == text.encode()


@pytest.mark.parametrize(
    "copied",
    [lambda text: text.replace(" ", "\u00a0").replace('"', "\u201d"), html.escape],
    ids=["typography", "entities"],
)
def test_copied_from_chats_and_pages(tmp_path, copied):
    """Same verdict, and evidence at its place in the file."""
    plain, pasted = tmp_path / "plain.log", tmp_path / "pasted.log"
    plain.write_text(LOG)
    pasted.write_text(copied(LOG))
    (tmp_path / "pasted.log.gz").write_bytes(gzip.compress(pasted.read_bytes()))
    expected, verdict = triage([plain]).verdict, triage([pasted]).verdict
    assert triage([tmp_path / "pasted.log.gz"]).verdict.cause == expected.cause
    assert (verdict.cause, verdict.confidence) == (expected.cause, expected.confidence)
    assert [item.line for item in verdict.evidence] == [item.line for item in expected.evidence]


COLOURED = (
    "\x1b[1;31mRuntimeError\x1b[0m: \x1b[31mshape '[2, 3]' is invalid for input of size 4\x1b[0m\n"
    "\x1b[32mINFO\x1b[0m: rate over [5m] done\n"
)


@pytest.mark.parametrize("escape", ["", "#033", "^[", "\\033", "\\x1b", "\\u001b", "ESC", "\u241b"])
def test_colours_that_became_text(tmp_path, escape):
    """A page drops the escape character, rsyslog and `cat -v` write it out; the verdict is that of the log."""
    (tmp_path / "log").write_text(COLOURED)
    (tmp_path / "paste").write_text(COLOURED.replace("\x1b", escape), "utf-8")
    expected, found = (triage([tmp_path / name]).verdict for name in ("log", "paste"))
    assert (found.cause, found.confidence) == (expected.cause, expected.confidence)
    assert "RuntimeError: shape" in found.evidence[0].text


@pytest.mark.parametrize("text", ["increase(x[5m]) and y[1m]\n", "a[0m] b\n", "rate(errors[1h])\n"])
def test_durations_are_no_colours(text):
    """Prometheus writes minutes in brackets."""
    assert mend_paste(text.encode()) == text.encode()


def test_any_bytes_keep_their_length_and_lines():
    """Whatever comes in: as long as before, and no line begins elsewhere unless it was joined."""
    source = random.Random(5)
    pool = [
        b"\n",
        b"\r\n",
        b"x" * 80,
        b"y" * 79,
        "\u00a0".encode(),
        "\u201c".encode(),
        b"\xff",
        b"\xc2",
        b"ab ",
        b"|",
        b"  ",
        b"[0m",
        b"^[[31m",
    ]
    for _ in range(500):
        data = b"".join(source.choice(pool) for _ in range(source.randint(0, 60)))
        mended = mend_paste(data)
        assert len(mended) == len(data)
        ends = [place for place, byte in enumerate(data) if byte == 10]
        assert {place for place, byte in enumerate(mended) if byte == 10} <= set(ends)


def test_a_wrapped_paste_is_diagnosed(tmp_path):
    """From a terminal of 80 columns the cause is still read, with the line on which the message begins."""
    log = tmp_path / "terminal.log"
    log.write_text(wrapped(LOG, 80))
    verdict = triage([log]).verdict
    (tmp_path / "plain.log").write_text(LOG)
    assert verdict.cause == triage([tmp_path / "plain.log"]).verdict.cause
    text = log.read_text()
    for item in verdict.evidence:
        assert text[: item.offset].count("\n") + 1 == item.line


EVENTS = """\
Events:
  Type     Reason            Age                From               Message
  ----     ------            ----               ----               -------
  Warning  FailedScheduling  41m                default-scheduler  0/8 nodes are available: 8 Insufficient nvidia.com/gpu. preemption: 0/8 nodes are available: 8 No preemption victims found.
  Normal   Scheduled         40m                default-scheduler  Successfully assigned ml/train-0 to ip-10-0-1-7.eu-west-1.compute.internal
  Normal   Pulled            39m                kubelet            Container image "train:1" already present on machine
  Normal   Started           39m                kubelet            Started container main
"""


@pytest.mark.parametrize(
    "copied",
    [lambda text: wrapped(text, 80), lambda text: text.replace(" ", "\u00a0")],
    ids=["terminal", "page"],
)
def test_a_pasted_description_is_read_as_one(tmp_path, copied):
    """A Pod that waited and was scheduled then is no fault; its events are told as such, wherever they were copied."""
    plain, pasted = tmp_path / "plain.txt", tmp_path / "pasted.txt"
    plain.write_text(EVENTS)
    pasted.write_text(copied(EVENTS))
    expected, report = triage([plain]), triage([pasted])
    assert report.status == expected.status != "fault"
    assert report.sources[0].kind == expected.sources[0].kind == "kubectl-describe"
