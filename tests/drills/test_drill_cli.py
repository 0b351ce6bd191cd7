"""`firstfault drill` as a person and a script meet it: exit codes, streams, terminals, hostile text."""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from pathlib import Path

import jsonschema
import msgspec
import pytest
from click.testing import CliRunner

from firstfault.cli.app import app
from firstfault.drills import Interrupted, Options, Recovered, run_drill
from firstfault.errors import UnsupportedError
from firstfault.model import Evidence, Role, Verdict
from firstfault.model.drill import Change, DrillReport, Phase, RankResult
from firstfault.report.drill import render_drill, render_recovered
from firstfault.report.schemas import schema_of
from support.users import ordinary_user  # noqa: F401 - a fixture


def env(state, **more):
    return {
        **{name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}},
        "FIRSTFAULT_STATE": str(state),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TERM": "xterm",
        **more,
    }


def firstfault(*arguments, state, **more):
    """Run the program; return what `subprocess.run` returns."""
    return subprocess.run(
        [sys.executable, "-m", "firstfault", *arguments],
        env=env(state, **more),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_list_and_plan_change_nothing(state):
    """Both work without a world, and leave not even a state folder."""
    listed = firstfault("drill", "list", "--format", "json", state=state)
    names = [drill["name"] for drill in json.loads(listed.stdout)["drills"]]
    assert "sg-block" in names
    plan = firstfault("drill", "plan", "sg-block", state=state)
    assert plan.returncode == 0
    assert "0 to add, 0 to change, 8 to destroy" in plan.stdout
    assert plan.stdout.count("cuts training") == 2
    assert "network.c10d.unreachable" in plan.stdout
    assert not state.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["drill", "run", "sg-blok"], "drill list"),
        (["drill", "run"], "name one drill"),
        (["drill", "run", "sg-block", "--all"], "name one drill"),
        (["drill", "run", "sg-block", "--timeout", "0"], "'--timeout': 0.0"),
        (["drill", "run", "sg-block", "--namespace", "x", "--yes"], "heeds --namespace,"),
        (["drill", "plan", "sg-block", "--group", "node=sg-1", "--gpus", "2"], "heeds --group, --gpus,"),
        (["drill", "run", "sg-block", "--toggle", "aux", "--reject"], "both toggles"),
        (["drill", "run", "sg-toggle-aux", "--reject"], "no variant"),
        (["drill", "run", "sg-block", "stray"], "stray"),
        (["drill", "run", "env-missing", "--launcher", "torchrun"], "started directly"),
        (["drill", "run", "sg-block", "--program", "/nonexistent/train.py"], "no such program"),
        (["drill", "run", "two-gpus-one-node", "--backend", "gloo"], "needs two GPUs"),
        (["drill", "run", "xid-31", "--backend", "gloo"], "needs a GPU"),
        (["drill", "run", "cuda-oom", "--backend", "gloo"], "what to do: run it on a machine whose GPUs PyTorch sees"),
        (["drill", "plan", "nothing.yaml"], "nothing.yaml"),
        (["drill", "lint"], "nothing to check"),
        (["drill", "lint", "nothing.yaml"], "nothing.yaml"),
        (["drill", "report", "no-such-run"], "no report"),
        (["drill", "report"], "no run has a report"),
    ],
)
def test_wrong_calls_exit_2_and_say_what_to_do(state, arguments, words):
    """No traceback, nothing on standard output, the reason on standard error."""
    ended = firstfault(*arguments, state=state)
    assert ended.returncode == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_recover_with_nothing_owed(state):
    """Nothing to do is success."""
    ended = firstfault("drill", "recover", state=state)
    assert ended.returncode == 0
    assert "Nothing is owed" in ended.stdout


def test_state_that_is_no_folder_is_not_called_clean(tmp_path):
    """Who points at a file, or at a folder whose runs are a file, is told so: nobody knows what is owed."""
    file = tmp_path / "state"
    file.write_text("")
    for verb in ("recover", "report"):
        ended = firstfault("drill", verb, state=file)
        assert ended.returncode == 2
        assert f"{file}: Not a directory" in ended.stderr
        assert "FIRSTFAULT_STATE" in ended.stderr
        assert ended.stdout == ""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "runs").write_text("")
    ended = firstfault("drill", "recover", state=folder)
    assert ended.returncode == 2
    assert "runs: Not a directory" in ended.stderr


def test_state_that_may_not_be_read_is_not_called_clean(ordinary_user):  # noqa: F811 - the fixture
    """A folder that may not be looked into is an error, not a clean bill."""
    (ordinary_user.home / "state").mkdir(mode=0o000)
    ended = ordinary_user.run("drill", "recover")
    (ordinary_user.home / "state").chmod(0o700)
    assert ended.returncode == 2
    assert "Permission denied" in ended.stderr
    assert ended.stdout == ""


def test_named_drill_without_its_package_is_refused(state, monkeypatch):
    """It would fail for a reason of this machine's, not for the one that it rehearses; no run is begun."""
    monkeypatch.setattr("firstfault.drills.everything._no_kubernetes_client", lambda: True)
    with pytest.raises(UnsupportedError, match=r"pip install 'firstfault\[live\]'"):
        run_drill("pod-crashloop", options=Options(backend="gloo"))
    assert not state.exists()


def test_refused_run_on_a_cluster_owes_nothing(state, tmp_path):
    """Without a usable kubeconfig nothing is touched, so nothing is left to recover."""
    call = ["drill", "run", "sg-block", "--world", "eks", "--yes", "--terraform-dir", "x", "--max-duration", "15m"]
    refused = firstfault(*call, state=state, KUBECONFIG=str(tmp_path / "none"))
    assert refused.returncode == 2, refused.stderr
    ended = firstfault("drill", "recover", state=state, KUBECONFIG=str(tmp_path / "none"))
    assert ended.returncode == 0
    assert ended.stdout.startswith("Nothing is owed")


HANGS = """
import contextlib, os, socket
rank, port = int(os.environ["RANK"]), int(os.environ["MASTER_PORT"])
if rank == 0:
    server = socket.create_server(("", port))
    server.accept()[0].sendall(b"x")
got = rank == 0
while not got:
    with contextlib.suppress(ConnectionError, TimeoutError):  # rank 0 may not listen yet; there is no timeout to heed
        got = bool(socket.create_connection((os.environ["MASTER_ADDR"], port)).recv(1))
"""


@pytest.mark.netns
@pytest.mark.usefixtures("netns")
def test_program_of_ones_own_may_hang_until_the_deadline(state, quick, tmp_path):
    """It need not heed FIRSTFAULT_TIMEOUT: the progress names the deadline, and hanging counts as failing."""
    scenario = tmp_path / "quick.yaml"
    expected = "  - {item: ranks, measure: ranks.outcome, equals: all failed}\n"
    scenario.write_text(Path(quick).read_text().replace("deadline_s: 20", "deadline_s: 7") + expected)
    program = tmp_path / "hangs.py"
    program.write_text(HANGS)
    call = ["drill", "run", str(scenario), "--backend", "gloo", "--program", str(program)]
    ended = firstfault(*call, "--format", "json", state=state)
    report = json.loads(ended.stdout)
    (ranks,) = [row for row in report["expected_vs_measured"] if row["item"] == "ranks"]
    assert (ranks["measured"], ranks["match"]) == ("all hung", "yes")
    assert "are ended after 7 s" in ended.stderr
    assert "give up after about" not in ended.stderr
    assert report["restored"] is True


def test_lint_and_new_speak_json(state, tmp_path):
    """Both take --format and --output as every verb does; lint says of each file how it is."""
    good, bad, torn = tmp_path / "good.yaml", tmp_path / "bad.yaml", tmp_path / "torn.yaml"
    target = tmp_path / "result.json"
    made = firstfault("drill", "new", str(good), "--format", "json", state=state)
    assert made.returncode == 0
    assert json.loads(made.stdout)["file"] == str(good)
    bad.write_text(good.read_text().replace("name: good", "name: other"))
    torn.write_text("name: [")
    ended = firstfault(
        "drill", "lint", str(good), str(bad), str(torn), "--format", "json", "--output", str(target), state=state
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    found = json.loads(target.read_text())
    assert found["schema"] == "firstfault.drill-lint/1"
    assert [each["result"] for each in found["files"]] == ["valid", "problems", "unreadable"]
    assert all(each["problems"] for each in found["files"][1:])
    text = firstfault("drill", "lint", str(good), str(bad), state=state)
    assert text.returncode == 1
    assert "1 of 2 valid" in text.stdout


def test_lint_prints_the_schema(state):
    """Editors can check scenario files with it."""
    schema = json.loads(firstfault("drill", "lint", "--schema", state=state).stdout)
    assert "security-group-toggles" in json.dumps(schema)


@pytest.mark.netns
@pytest.mark.usefixtures("netns")
def test_result_and_progress_are_apart(state, quick, tmp_path):
    """Without a terminal: plain lines on standard error, the result alone on standard output or in the file."""
    target = tmp_path / "result.json"
    ended = firstfault("drill", "run", quick, "--format", "json", "--output", str(target), state=state)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
    report = json.loads(target.read_text())
    jsonschema.validate(report, schema_of("drill"))
    assert report["restored"] is True
    assert "waiting for 2 of 2 ranks" in ended.stderr
    assert "\x1b" not in ended.stderr
    again = firstfault("drill", "report", "--format", "json", state=state)
    assert json.loads(again.stdout) == report


def on_terminal(arguments, state, columns, **more):
    """Run the program on a pseudo terminal of that width; return exit code and everything that it wrote."""
    controller, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "firstfault", *arguments], env=env(state, **more), stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        chunks = []
        while True:
            try:
                chunk = os.read(controller, 65536)
            except OSError:
                break
            if not chunk:
                break
            chunks.append(chunk)
    os.close(controller)
    return process.returncode, b"".join(chunks).decode()


@pytest.mark.netns
@pytest.mark.usefixtures("netns")
def test_closed_streams_and_a_relative_state_folder(tmp_path, quick):
    """As a daemon might start it, with a state folder relative to where it stands: the drill runs and is kept."""
    ended = subprocess.run(
        ["sh", "-c", 'exec "$0" -m firstfault drill run "$1" <&- >&- 2>&-', sys.executable, quick],
        env=env("state"), cwd=tmp_path, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0
    (folder,) = (tmp_path / "state" / "runs").iterdir()
    assert json.loads((folder / "report.json").read_text())["restored"] is True


@pytest.mark.netns
@pytest.mark.torch
@pytest.mark.usefixtures("netns")
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_ranks_have_standard_streams_although_the_caller_has_none(tmp_path):
    """A closed standard error neither reaches the ranks nor gives its number to another file."""
    ended = subprocess.run(
        ["sh", "-c", 'exec "$0" -m firstfault drill run sg-toggle-aux --backend gloo 2>&-', sys.executable],
        env=env(tmp_path), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout


# Sends itself a signal when the journal has the first event of a name: no busy machine makes that later.
INTERRUPTED_AT = """
import os, sys
from firstfault.cli import main
from firstfault.drills.journal import Journal
_, name, number, *sys.argv[1:] = sys.argv
append, waiting = Journal.append, [name]
def append_and_signal(journal, event, **fields):
    append(journal, event, **fields)
    if event in waiting:
        waiting.remove(event)
        os.kill(os.getpid(), int(number))
Journal.append = append_and_signal
main()
"""


@pytest.mark.netns
@pytest.mark.usefixtures("netns")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_interrupt_after_the_end_still_shows_the_result(state, quick, number):
    """The fault is taken back and the logs are being read: the result is printed, and it is said where it lies."""
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, "triage-started", str(int(number)), "drill", "run", quick, "--format", "json"],
        env=env(state), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 128 + number
    assert json.loads(ended.stdout)["restored"] is True
    assert "interrupted after its end" in ended.stderr
    (folder,) = (state / "runs").iterdir()
    assert str(folder / "report.json") in ended.stderr
    assert json.loads((folder / "report.json").read_text())["restored"] is True


@pytest.mark.netns
@pytest.mark.usefixtures("netns")
def test_rank_that_fails_in_the_baseline_is_quoted_at_once(state, tmp_path):
    """Nobody waits for the timeout of ranks that only wait for the failed one; its last words are in the result."""
    program = tmp_path / "broken.py"
    program.write_text(
        "import os, time\n"
        "if os.environ['RANK'] == '0':\n"
        "    time.sleep(3600)\n"
        "raise SystemExit('no data set at /data')\n"
    )
    ended = firstfault(
        "drill", "run", "dns-missing", "--backend", "gloo", "--program", str(program), "--format", "json", state=state
    )
    assert ended.returncode == 1
    report = json.loads(ended.stdout)
    (baseline,) = report["phases"]
    assert [rank["exit_code"] for rank in baseline["ranks"]] == [None, 1]
    assert baseline["ranks"][1]["last_lines"][-1] == "no data set at /data"
    assert "ranks [0] stopped, since rank 1 failed without a fault" in ended.stderr
    shown = firstfault("drill", "report", state=state).stdout
    assert "no data set at /data" in shown
    assert "exit stopped 1" in shown


@pytest.mark.netns
@pytest.mark.usefixtures("netns")
def test_terminal_sees_it_live(state, quick):
    """One moving line while it runs, the phases as they end, then the result in colour."""
    code, text = on_terminal(["drill", "run", quick], state, 100)
    assert code == 0
    assert "\r\x1b[K" in text
    assert "waiting for 2 of 2 ranks to end" in text
    assert text.index("✔ baseline") < text.index("✘ injected") < text.index("✔ restored") < text.index("Phases")
    assert "\x1b[32m✔\x1b[0m" in text


@pytest.mark.netns
@pytest.mark.usefixtures("netns")
def test_no_color_and_narrow_terminals(state, quick):
    """NO_COLOR takes the colours away; on 50 columns nothing is cut off or wider than the page."""
    code, text = on_terminal(["drill", "run", quick], state, 50, NO_COLOR="1")
    assert code == 0
    assert "\x1b[3" not in text
    assert "\x1b[1m" not in text
    result = text[text.rindex("quick: ") :]
    paths = [line for line in result.splitlines() if len(line) > 50 and " " in line.strip()]
    assert paths == []


def hostile_report():
    """A report whose texts try to act on a terminal and on a CI runner."""
    text = "::error::owned\x1b]0;title\x07\x1b[2J##vso[task.complete]"
    evidence = Evidence(source="a\x1b[31m.log", line=1, text=text, role=Role.ROOT)
    verdict = Verdict(
        cause="network.c10d.unreachable", layer="network", title=text, confidence=0.8, summary=text, evidence=[evidence]
    )
    rank = RankResult(rank=0, host=text, exit_code=1, sums=[], seconds=1)
    phase = Phase(name="baseline", started="", seconds=1, ranks=[rank], firewall={}, probes=[])
    return DrillReport(
        drill="x", title=text, world="local", backend="gloo", launcher="direct", started="", seconds=1,
        change=Change(steps=[text]), phases=[phase], status="fault", verdict=verdict, ladder=None, transport=None,
        expected_vs_measured=[], recovery=[], detection=[], as_expected=False, restored=True, left_behind=[],
        journal="/j", logs="/l",
    )  # fmt: skip


@pytest.mark.parametrize("format_", ["text", "json"])
def test_text_is_data(format_):
    """Escape sequences and workflow commands are shown, never acted upon."""
    shown = render_drill(hostile_report(), format_)
    assert "\x1b" not in shown
    assert "\\u001b" not in shown
    assert not any(line.lstrip().startswith("::error") for line in shown.splitlines())
    assert "##vso[" not in shown
    assert "owned" in shown


def test_report_of_a_failed_baseline_says_so():
    """A reader is told why nothing was injected."""
    assert "nothing was injected" in render_drill(hostile_report(), "text").replace("\n  ", " ")


def test_report_of_a_failed_baseline_claims_no_restoration():
    """Nothing was changed, and the job, which failed, equals no baseline."""
    text = render_drill(msgspec.structs.replace(hostile_report(), restored=True), "text")
    assert "Nothing was changed; nothing is left behind" in text
    assert "equal the baseline" not in text


def test_what_is_owed_and_what_to_do_are_two_lines():
    """An error's advice is not run into its text."""
    error = str(UnsupportedError("the cluster cannot be reached", "set KUBECONFIG"))
    owed = Recovered(run="r", drill="sg-block", world="eks", outcome="owed", left_behind=[error])
    lines = [line.strip() for line in render_recovered([owed], "text").splitlines()]
    assert lines[1:] == ["- the cluster cannot be reached", "what to do: set KUBECONFIG"]


@pytest.mark.netns
@pytest.mark.usefixtures("netns")
def test_interrupt_in_the_baseline_speaks_of_no_fault(state, quick):
    """Nothing had been injected, so nothing was taken back."""
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, "job-started", str(int(signal.SIGINT)), "drill", "run", quick],
        env=env(state), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert ended.stdout == ""
    assert ended.returncode == 128 + signal.SIGINT
    assert "interrupted; no fault had been made; nothing is left behind" in ended.stderr


def test_interrupted_run_of_all_tells_begun_drills_from_the_others(monkeypatch):
    """Only a drill that ran can have failed, or have had a fault to take back."""

    def interrupted(*_, begun, **__):
        begun("sg-block")
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr("firstfault.drills.run_everything", interrupted)
    ended = CliRunner().invoke(app, ["drill", "run", "--all"], standalone_mode=False)
    assert ended.return_value == 128 + signal.SIGINT
    text = " ".join(ended.stdout.split())
    assert text.count("FAILED") == 1
    assert "FAILED: sg-block (interrupted)" in text
    assert "not run: sg-reject (interrupted before its turn)" in text
    assert "1 drill was stopped" in ended.stderr


def test_not_restored_is_loud():
    """What is left is named in the result."""
    report = msgspec.structs.replace(hostile_report(), restored=False, left_behind=["process 7 (stub of the world)"])
    text = render_drill(report, "text")
    assert "Not restored" in text
    assert "process 7" in text


FORBIDDEN = "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all -- "


@pytest.mark.netns
@pytest.mark.usefixtures("netns")
@pytest.mark.skipif(
    shutil.which("unshare") is None or shutil.which("setpriv") is None, reason="needs unshare and setpriv (util-linux)"
)
def test_machine_that_forbids_namespaces_is_told_apart(state, quick):
    """Where user namespaces are used up: exit 2, the setting by name, no process, no journal that is owed."""
    python = f"{sys.executable} -m firstfault drill run {quick}"
    ended = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", FORBIDDEN + python],
        env=env(state),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2, ended.stderr
    assert "sysctl -w user.max_user_namespaces" in ended.stderr
    assert "Nothing was changed" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert firstfault("drill", "recover", state=state).stdout.startswith("Nothing is owed")


NO_LINUX = """
import sys
sys.platform = "darwin"
from firstfault.cli import main
main()
"""


def test_other_systems_are_refused(state):
    """On a system without namespaces the drill says so and names what works there."""
    ended = subprocess.run(
        [sys.executable, "-c", NO_LINUX, "drill", "run", "sg-block"],
        env=env(state), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 2
    assert "darwin" in ended.stderr
    assert "firstfault triage" in ended.stderr
    assert not state.exists()
