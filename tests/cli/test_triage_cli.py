"""The verb triage as a person runs it: exit codes, JSON of the contract, hostile lines."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import tarfile
import termios
from fcntl import ioctl
from pathlib import Path

import pytest

from firstfault import triage
from firstfault.cli import app as app_module
from firstfault.report.page import Page

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "logs"


def firstfault(*arguments, stdin=b""):
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "firstfault", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        ([EXAMPLES / "sg-block"], b"", 1),
        ([EXAMPLES / "gloo-healthy"], b"", 0),
        (["-"], b"", 3),
        (["-"], b"the quick brown fox\n", 3),
        (["/nowhere/at/all"], b"", 2),
        (["/nowhere/at/all", EXAMPLES / "sg-block"], b"", 2),
        ([], b"", 2),
        (["--format", "xml", "-"], b"", 2),
    ],
)
def test_exit_codes(arguments, stdin, code):
    """Each outcome has its exit code; an unreadable input wins over a fault, and nobody sees a traceback."""
    done = firstfault("triage", *arguments, stdin=stdin)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr


def test_no_report_on_inputs_of_which_none_could_be_read():
    """Only why; a program gets its JSON, which does not call the input empty either."""
    done = firstfault("triage", "/nowhere/at/all")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"/nowhere/at/all" in done.stderr
    report = json.loads(firstfault("triage", "/nowhere/at/all", "--format", "json").stdout)
    assert report["problems"]
    assert [each["why"] for each in report["missing"]] == ["no output could be read"]


def test_a_refused_allocation_is_not_called_a_kill():
    """The CPU's allocator says that it got no memory; nothing was killed."""
    line = b"RuntimeError: [enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: "
    done = firstfault("triage", "-", stdin=line + b"you tried to allocate 8589934592 bytes. Error code 12\n")
    assert b"workload.host.oom" in done.stdout
    assert b"could not allocate" in b" ".join(done.stdout.split())
    assert b"kernel killed" not in done.stdout


def test_a_missing_path_is_named_and_the_others_are_read():
    """One bad path is reported on standard error; the report on the others is there."""
    done = firstfault("triage", "/nowhere/at/all", EXAMPLES / "sg-block", "--format", "json")
    report = json.loads(done.stdout)
    assert report["verdict"]["cause"] == "network.c10d.unreachable"
    assert b"/nowhere/at/all" in done.stderr
    assert "/nowhere/at/all" in report["problems"][0]


def test_a_rank_is_named_only_where_a_line_tells_one(tmp_path):
    """What Slurm or Kubernetes says of a node or a Pod is about the job."""
    log = tmp_path / "events"
    log.write_text("0/8 nodes are available: 8 Insufficient nvidia.com/gpu. preemption: not eligible.\n")
    assert json.loads(firstfault("triage", log, "--format", "json").stdout)["ladder"]["groups"][0]["ranks"] == []
    text = firstfault("triage", log).stdout.decode()
    assert "the job: reached admitted, stopped at scheduled" in text
    assert "rank" not in text.partition("Ladder")[2].partition("Confirm")[0]


def test_json_of_the_contract(tmp_path):
    """Every field of the contract is there, and --output writes the same to a file."""
    target = tmp_path / "report.json"
    firstfault("triage", EXAMPLES / "sg-block", "--format", "json", "--output", target)
    report = json.loads(target.read_text())
    assert report["schema"] == "firstfault.triage/1"
    assert {"status", "verdict", "others", "ladder", "sources", "missing"} <= set(report)
    documented = (ROOT / "docs" / "triage.md").read_text("utf-8")
    assert all(f"`{key}`" in documented for key in report)
    verdict = report["verdict"]
    wanted = "cause layer title confidence summary transport evidence consequences ruled_out next_steps fix prevention"
    assert set(wanted.split()) <= set(verdict)
    assert {"source", "line", "offset", "text", "role", "rank", "time"} <= set(verdict["evidence"][0])
    assert {"ranks", "reached", "stopped_at", "why"} <= set(report["ladder"]["groups"][0])
    assert report["ladder"]["groups"][0]["ranks"] == [[0, 0]]
    assert report["sources"][0]["bytes"] > 0


def test_unknown_says_what_is_missing():
    """Nothing recognised: the report names what would decide, with the command that gets it."""
    report = json.loads(firstfault("triage", "-", "--format", "json", stdin=b"hello\n").stdout)
    assert report["status"] == "unknown"
    assert report["verdict"] is None
    assert all(item["command"] for item in report["missing"])
    assert report["missing"]


@pytest.mark.parametrize("format_", ["text", "json"])
def test_hostile_lines_are_shown_and_never_acted_upon(format_):
    """Escape sequences, controls and workflow commands of a log do not reach a terminal or CI runner."""
    line = (
        b"\x1b]0;owned\x07\x1b[2J::error file=x::boom ##[error]x \x9b31m "
        b"torch.distributed.DistNetworkError: The client socket has timed out after 5000ms while trying to connect to"
        b" (\x1b[31mmaster\x1b[0m, 29500). AKIAIOSFODNN7EXAMPLE\n"
    )
    done = firstfault("triage", "-", "--format", format_, stdin=b"::error::first\n" + line)
    assert done.returncode == 1
    assert not any(byte < 32 and byte != 10 for byte in done.stdout)
    assert b"\xc2\x9b" not in done.stdout
    assert b"##[" not in done.stdout
    assert b"AKIAIOSFODNN7EXAMPLE" not in done.stdout
    assert not any(row.lstrip().startswith(b"::error") for row in done.stdout.splitlines())
    assert b"The client socket has timed out" in done.stdout


def test_explain():
    """A card by id, by alias, by beginning; an unknown one is a usage error that says how to list them."""
    assert b"Fix" in firstfault("explain", "network.c10d.unreachable").stdout
    assert json.loads(firstfault("explain", "network.c10d.unreachable", "--format", "json").stdout)["id"]
    assert b"network.c10d.refused" in firstfault("explain", "network.c10d").stdout
    assert len(firstfault("explain").stdout.splitlines()) > 100
    empty = firstfault("explain", "")
    assert empty.returncode == 2
    assert b"the cause is empty" in empty.stderr
    unknown = firstfault("explain", "network.no.such")
    assert unknown.returncode == 2
    assert b"firstfault explain" in unknown.stderr


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("79", "driver.gpu.fallen-off"),
        ("xid79", "driver.gpu.fallen-off"),
        ("XID 48", "driver.ecc.uncorrectable"),
        ("7", "driver.xid.7"),
        ("Xid-119", "driver.xid.119"),
        ("DRIVER.XID.79", "driver.gpu.fallen-off"),
        ("Network.C10D.Unreachable", "network.c10d.unreachable"),
    ],
)
def test_explain_takes_xids_and_capital_letters(words, cause):
    """As people know them from the kernel log, and as some write ids."""
    assert json.loads(firstfault("explain", words, "--format", "json").stdout)["id"] == cause


@pytest.mark.parametrize(
    ("words", "near"), [("network.c10d.unreachabel", b"network.c10d.unreachable"), ("OOM", b"workload.cuda.oom")]
)
def test_explain_suggests_what_was_meant(words, near):
    """A slip of the fingers, or a part of the id alone."""
    done = firstfault("explain", words)
    assert done.returncode == 2
    assert b"did you mean" in done.stderr
    assert near in done.stderr


def test_the_report_is_not_written_over_the_evidence(tmp_path):
    """`triage job.log --output job.log`, or through another name of the same file, leaves the log as it is."""
    log = tmp_path / "job.log"
    log.write_bytes(OOM)
    other = tmp_path / "other.log"
    other.symlink_to(log)
    for target in (log, other):
        done = firstfault("triage", log, "--output", target)
        assert done.returncode == 2
        assert b"is one of the inputs" in done.stderr
        assert log.read_bytes() == OOM


OOM = b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def run_shell(script, *arguments):
    """Run the command from a shell, for what only a shell does to its descriptors; "$0" is Python."""
    return subprocess.run(
        ["sh", "-c", script, sys.executable, *map(str, arguments)],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )


@pytest.mark.parametrize("lines", [40, 60_000], ids=["within the head", "many chunks"])
def test_the_last_lines_of_a_cut_gzip_file_are_read(tmp_path, lines):
    """A log cut in transfer still shows the fault that stands right before the cut."""
    noise = b"".join(b"step %d loss %d.%d\n" % (n, n * 7919 % 9973, n * 31337 % 65521) for n in range(lines))
    cut = tmp_path / "train.log.gz"
    # A full gzip member, then one without its end: all of it can be read, the end is missing.
    cut.write_bytes(gzip.compress(noise) + gzip.compress(OOM, compresslevel=0)[:-8])
    done = firstfault("triage", cut, "--format", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 2
    assert b"cut after" in done.stderr
    assert report["verdict"]["cause"] == "workload.cuda.oom"
    assert report["verdict"]["evidence"][0]["line"] == lines + 1
    assert report["sources"][0]["bytes"] >= len(noise) + len(OOM)


def test_a_cut_json_export_is_read_up_to_the_cut(tmp_path):
    """Readers of structured formats do not lose what stood before the damage either."""
    line = json.dumps({"log": OOM.decode(), "stream": "stderr", "time": "2026-01-01T00:00:00Z"}).encode() + b"\n"
    cut = tmp_path / "container.log.gz"
    cut.write_bytes(gzip.compress(line * 3, compresslevel=0)[:-8])
    done = firstfault("triage", cut, "--format", "json")
    report = json.loads(done.stdout)
    assert done.returncode == 2
    assert report["sources"][0]["bytes"] >= 3 * len(line)
    assert report["verdict"]["cause"] == "workload.cuda.oom"


def test_messages_about_hostile_names_are_safe(tmp_path):
    """The name of an archive's member cannot retitle a terminal, command a CI runner or leak a key on standard error."""
    packed = tmp_path / "logs.tar"
    with tarfile.open(packed, "w") as archive:
        member = tarfile.TarInfo("../\n::error file=x::boo\x1b]0;title\x07 AKIA" + "ABCDEFGHIJ234567")
        archive.addfile(member, io.BytesIO())
    done = firstfault("triage", packed)
    assert done.returncode == 2
    assert b"path traversal" in done.stderr
    for bad in (b"\x1b", b"\x07", b"\n::error", b"AKIAABCDEFGHIJ234567"):
        assert bad not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ('"$0" -m firstfault triage - <&-', 2, b"standard input is not available"),
        ('"$0" -m firstfault triage - - <"$1"', 2, b"read already"),
        ('"$0" -m firstfault triage ""', 2, b"a path is empty"),
        ('"$0" -m firstfault triage "$1" >/dev/full', 2, b"No space left"),
        ('"$0" -m firstfault --help >/dev/full', 2, b"No space left"),
        ('"$0" -m firstfault triage /no/such/file 2>/dev/full', 2, b""),
    ],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_odd_descriptors_and_empty_paths_have_messages(tmp_path, script, code, message):
    """A crash ends with 1, which would say "a fault": each of these ends with 2 and says why."""
    log = tmp_path / "train.log"
    log.write_bytes(OOM)
    done = run_shell(script, log)
    assert done.returncode == code
    assert message in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_reader_that_went_away_does_not_change_the_exit_code(tmp_path):
    """`firstfault triage … | true` under pipefail still says that there was a fault."""
    log = tmp_path / "train.log"
    log.write_bytes(OOM)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "firstfault", "triage", log],
            stdout=gone,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
    assert done.returncode == 1
    assert done.stderr == b""


@pytest.mark.parametrize("arguments", [["--output", "/nowhere/at/all"], ["--run", "--out", "/nowhere/at/all.tar.gz"]])
def test_collect_to_a_place_that_is_not_there(arguments):
    """Nothing is gathered for a bundle that cannot be written; the message says which path."""
    done = firstfault("collect", *arguments)
    assert done.returncode == 2
    assert b"/nowhere/at" in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""


@pytest.mark.parametrize(
    "arguments",
    [
        ["triage", EXAMPLES / "sg-block", "--output"],
        ["explain", "network.c10d.unreachable", "--output"],
        ["audit", EXAMPLES, "--output"],
        ["collect", "--output"],
        ["collect", "--run", "--out"],
        ["guard", "budget", "--output"],
        ["guard", "render", "--out"],
        ["drill", "list", "--output"],
    ],
)
def test_an_empty_path_to_write_to_is_no_folder(arguments):
    """`--output "$UNSET"` must not mean the current folder: it is an error of usage, before any work."""
    done = firstfault(*arguments, "")
    assert done.returncode == 2
    assert b"the path is empty" in done.stderr
    assert done.stdout == b""


def test_library_call_redacts_and_neutralises_as_the_command_does(tmp_path):
    """`firstfault.triage()` hands out no secret and no escape sequence either."""
    secret = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"
    log = tmp_path / "rank0.log"
    log.write_text(f"RuntimeError: \x1b[31mbad token {secret} in step 3\n")
    report = triage([log])
    assert report.verdict is not None
    texts = [each.text for each in report.verdict.evidence]
    assert texts
    assert not any(secret in text or "\x1b" in text for text in texts)


def test_defect_of_our_own_is_not_mistaken_for_a_finding(monkeypatch, capsys):
    """An exception that nobody expected ends with 2 and its traceback, never with 1."""

    def broken(**_options):
        raise ZeroDivisionError("never")

    monkeypatch.setattr(app_module.app, "main", broken)
    with pytest.raises(SystemExit) as ended:
        app_module.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "defect of firstfault" in said
    assert "Traceback" in said


def test_unknown_shows_what_complains(tmp_path):
    """Who gets no verdict still sees where to look: each kind of complaint once, with its place."""
    log = tmp_path / "operator.log"
    log.write_text(
        "".join(f"step {n}\nERROR frobnicator {n} lost its widget {n * 7}\n" for n in range(40)) + "FATAL: gone\n"
    )
    done = firstfault("triage", log)
    assert done.returncode == 3
    assert done.stdout.count(b"frobnicator") == 1
    assert f"{log}:2".encode() in done.stdout
    assert b"FATAL: gone" in done.stdout


def test_what_was_not_read_is_not_called_healthy(tmp_path):
    """A healthy log beside one that is damaged: nobody can say that all is well."""
    whole = b"".join(b"step %d loss 2.%d tokens/s 1000\n" % (n, n) for n in range(3000))
    (tmp_path / "a.log").write_bytes(whole)
    assert json.loads(firstfault("triage", tmp_path, "--format", "json").stdout)["status"] == "healthy"
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(whole)[:-500])
    done = firstfault("triage", tmp_path, "--format", "json")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (2, "unknown")


def on_terminal(columns, *arguments):
    """Run the command on a pseudo terminal of that width and return what it shows."""
    controller, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(
        [sys.executable, "-m", "firstfault", *map(str, arguments)],
        stdout=terminal,
        env=environ | {"PYTHONPATH": str(ROOT / "src")},
    ):
        os.close(terminal)
        shown = b""
        with contextlib.suppress(OSError):  # how a pseudo terminal says that the other side has gone
            while data := os.read(controller, 65536):
                shown += data
    os.close(controller)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("columns", "width"), [(72, 72), (20, 60), (300, 100)])
@pytest.mark.parametrize(
    "arguments",
    [["triage", "."], ["explain", "network.c10d.unreachable"], ["explain", "driver."], ["audit", "job.yaml"]],
    ids=lambda words: words[0] + words[1][:1],
)
def test_text_fits_the_terminal_and_loses_no_word(tmp_path, monkeypatch, columns, width, arguments):
    """From 60 to 100 columns; only words without a blank are wider. What a pipe gets does not depend on any terminal."""
    monkeypatch.chdir(tmp_path)
    for log in (EXAMPLES / "sg-block").glob("*.log"):
        shutil.copy(log, tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    shown = on_terminal(columns, *arguments)
    lines = shown.splitlines()
    # A command stays in one piece, to be copied.
    wide = [line for line in lines if len(line) > width and " " in line.strip(" -") and "kubectl" not in line]
    assert wide == []
    assert max(map(len, lines)) > width * 0.8
    monkeypatch.setenv("COLUMNS", "60")
    piped = firstfault(*arguments).stdout.decode()
    assert shown.split() == piped.split()


JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: train}
spec:
  template:
    spec:
      containers:
        - name: trainer
          image: registry.example/train:latest
          command: [torchrun, --nnodes=2, --nproc-per-node=8, --rdzv-endpoint=train-master.train.svc.cluster.local:29500]
          resources: {limits: {nvidia.com/gpu: 8}}
      restartPolicy: Never
"""


def test_row_of_a_log_is_whole_in_a_pipe_and_hangs_on_a_terminal():
    """Its own indent, and blanks within it, stay."""
    line = "   State=IDLE+DRAIN  ThreadsPerCore=1 " + "x" * 70
    assert Page().row(line, "    ") == ["    " + line]
    first, second = Page(60).row(line, "    ")
    assert first == "       State=IDLE+DRAIN  ThreadsPerCore=1"
    assert second == "      " + "x" * 70
