"""`firstfault collect`: the printed commands, and the bundle that they make with the real kubectl."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import firstfault
from firstfault.cli.collect import collect
from firstfault.cli.triage import triage_command
from firstfault.collect.bundle import pack_bundle
from firstfault.collect.commands import Target, list_commands, permissions, run_commands, script
from firstfault.errors import InputError
from support.processes import is_running

from .conftest import node, pod

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the PATH")


def test_script_is_valid_shell_and_quotes_what_the_user_gives():
    """A selector is data: it cannot run a command in the script."""
    text = script(Target(namespace="train", selector="a=$(touch /tmp/owned)", context="prod eu"))
    done = subprocess.run(["sh", "-n"], input=text.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "'a=$(touch /tmp/owned)'" in text
    assert "'prod eu'" in text
    assert "@" not in "".join(line for line in text.splitlines() if not line.startswith("k()")).replace('"$@"', "")


def test_every_kubectl_command_only_reads():
    verbs = {command.argv[command.argv.index("--request-timeout=20s") + 1] for command in list_commands(Target())}
    assert verbs == {"get"}


def test_permissions_cover_exactly_what_is_read():
    rules = permissions()["rbac"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list"}
    assert any("pods/log" in rule["resources"] for rule in rules)
    assert all(action.startswith("ec2:Describe") for action in permissions()["iam"]["Statement"][0]["Action"])


@needs_kubectl
def test_bundle_made_by_kubectl_is_redacted_and_names_what_is_missing(kube, tmp_path):
    """The real kubectl against the mock API: logs come with the previous ones, secrets do not come at all."""
    crashing = pod("serve-0", "node-0", "10.0.0.9")
    crashing["status"]["containerStatuses"][0]["restartCount"] = 2
    kube.add("pods", crashing)
    kube.add("nodes", node("node-0"))
    kube.logs["train", "serve-0", "trainer", False] = "starting\n"
    kube.logs["train", "serve-0", "trainer", True] = (
        "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\nValueError: boom\n"
    )
    kube.fail("/apis/batch/v1/namespaces/train/jobs", 403)
    bundle = tmp_path / "bundle.tar.gz"
    result = CliRunner().invoke(
        collect, ["-n", "train", "--run", "--out", str(bundle), "--format", "json"], standalone_mode=False
    )
    assert result.exception is None, result.output
    report = json.loads(result.output)
    assert [each["what"] for each in report["missing"]] == ["jobs.json"]
    assert bundle.stat().st_mode & 0o777 == 0o600
    with tarfile.open(bundle) as archive:
        names = archive.getnames()
        previous = archive.extractfile("logs/serve-0/trainer.previous.log").read().decode()
    assert "logs/serve-0/trainer.log" in names
    assert "MISSING.txt" in names
    assert "ValueError: boom" in previous
    assert "hf_abcdef" not in previous


SECRET = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"
LONG = "eyJ" + "a" * 20 + "." + "b" * 480 + "." + "c" * 40


def failing(argv):
    """A kubectl that is refused, and says with which token and in which account."""
    said = (
        f"error: You must be logged in (Unauthorized) token={SECRET} arn:aws:iam::123456789012:role/x \x1b[31m {LONG}"
    )
    return subprocess.CompletedProcess(argv, 1, b"", said.encode())


def test_what_a_command_complains_of_is_redacted(tmp_path, monkeypatch):
    """Standard error goes into the bundle and the report as everything else does: without tokens and account ids."""
    missing = run_commands(tmp_path, Target(namespace="train"), failing)
    assert missing

    def gather(folder, target):
        (folder / "nodes.json").write_text("{}")
        return missing

    monkeypatch.setattr("firstfault.collect.commands.run_commands", gather)
    for form in ("text", "json"):
        bundle = tmp_path / f"{form}.tar.gz"
        arguments = ["-n", "train", "--context", "arn:aws:eks:r:123456789012:cluster/c", "--run", "--out", str(bundle)]
        result = CliRunner().invoke(collect, [*arguments, "--format", form], standalone_mode=False)
        with tarfile.open(bundle) as archive:
            stored = archive.extractfile("MISSING.txt").read().decode()
        for text in (result.output, stored, *(each.why for each in missing)):
            assert "Unauthorized" in text
            for secret in (SECRET, "123456789012", "\x1b", "a" * 20, "b" * 30):
                assert secret not in text


def test_what_kubectl_logs_of_each_try_is_left_out(tmp_path):
    """Its sentence stands at the end; where there is none, all is shown."""
    tries = 'E1130 16:21:21.867225   24455 memcache.go:265] "Unhandled Error" err="connection refused"\n' * 5
    sentence = "The connection to the server localhost:8080 was refused\n"
    for said, shown in ((tries + sentence, sentence.strip()), (tries, tries[:20])):
        missing = run_commands(
            tmp_path, Target(), run=lambda argv, said=said: subprocess.CompletedProcess(argv, 1, b"", said.encode())
        )
        assert missing[0].why.startswith(shown)


def test_answers_that_are_no_lists_are_missing_and_not_a_crash(tmp_path):
    """A proxy's login page with exit code 0."""
    missing = run_commands(tmp_path, Target(), lambda argv: subprocess.CompletedProcess(argv, 0, b"<html>", b""))
    assert {each.what for each in missing} == {"pods.json", "nodes.json"}


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "DB_PASSWORD", "value": "hunter2"}',
        '{\n  "name": "WANDB_API_KEY",\n  "value": "hunter2"\n}',
        "- name: HF_TOKEN\n  value: hunter2\n- name: RANK\n  value: '3'\n",
    ],
)
def test_the_environment_of_a_container_is_redacted(tmp_path, text):
    """`kubectl get pods -o json` writes names and values apart."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "pods.json").write_text(text)
    assert pack_bundle(tmp_path / "in", tmp_path / "b.tar.gz") == 1
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        stored = archive.extractfile("pods.json").read().decode()
    assert "hunter2" not in stored
    assert "<secret>" in stored
    assert stored.replace("<secret>", "hunter2") == text


def test_existing_bundle_is_not_overwritten(tmp_path):
    bundle = tmp_path / "b.tar.gz"
    bundle.write_bytes(b"precious")
    result = CliRunner().invoke(collect, ["--run", "--out", str(bundle)], standalone_mode=False)
    assert "exists already" in str(result.exception)
    assert bundle.read_bytes() == b"precious"


@pytest.mark.aws
def test_cloud_part_answers_reachability(kube, nodes, tmp_path, monkeypatch):
    """The commands' outputs decide whether 29500 is open, as live triage would."""
    ec2 = nodes.ec2

    def run(argv):
        if argv[0] == "kubectl":
            kind = argv[argv.index("get") + 1].split(".")[0] if "get" in argv else ""
            items = [obj for (plural, _, _), obj in kube.objects.items() if plural == kind]
            body = {"kind": "List", "items": items} if kind else "log line\n"
        else:
            call = next(word for word in argv if word.startswith("describe-")).replace("-", "_")
            body = getattr(ec2, call)()
            body.pop("ResponseMetadata")
        text = body if isinstance(body, str) else json.dumps(body, default=str)
        return subprocess.CompletedProcess(argv, 0, text.encode(), b"")

    assert run_commands(tmp_path, Target(namespace="train"), run) == []
    assert "tcp 29500 open" in (tmp_path / "reachability.txt").read_text()
    nodes.block()
    assert run_commands(tmp_path, Target(namespace="train"), run) == []
    assert "tcp 29500 dropped" in (tmp_path / "reachability.txt").read_text()


@needs_kubectl
def test_printed_script_makes_the_same_folder(kube, tmp_path):
    """What a person pastes into a shell gives what --run gives."""
    kube.add("pods", pod("a", "node-0", "10.0.0.1"))
    kube.add("nodes", node("node-0"))
    kube.logs["train", "a", "trainer", False] = "log of a\n"
    text = script(Target(namespace="train"))
    subprocess.run(["sh", "-s", str(tmp_path / "out")], input=text.encode(), check=True, capture_output=True)
    names = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert {"pods.json", "nodes.json", "logs/a/trainer.log"} <= names
    assert (tmp_path / "out/logs/a/trainer.log").read_text() == "log of a\n"


@pytest.mark.parametrize("verb", [collect, triage_command])
@pytest.mark.parametrize("option", ["-n", "-l", "--context"])
@pytest.mark.parametrize("value", ["", " "])
def test_empty_value_is_refused_and_does_not_mean_everything(verb, option, value):
    """`-l "$SELECTOR"` with the variable unset would gather every Pod of the namespace."""
    done = CliRunner().invoke(verb, [option, value])
    assert done.exit_code == 2
    assert "the value is empty" in done.output


@pytest.mark.parametrize("form", ["text", "json"])
def test_nothing_gathered_is_said_with_why_and_what_to_do(tmp_path, monkeypatch, form):
    """No bundle is promised, and none stands in the way of the next try."""
    monkeypatch.setattr(
        "firstfault.collect.commands.run_commands",
        lambda folder, target: run_commands(folder, target, failing),
    )
    bundle = tmp_path / "b.tar.gz"
    result = CliRunner().invoke(collect, ["--run", "--out", str(bundle), "--format", form], standalone_mode=False)
    assert result.return_value == 3
    assert not bundle.exists()
    assert "Unauthorized" in result.output
    if form == "json":
        report = json.loads(result.output)
        assert (report["bundle"], report["files"]) == (None, 0)
    else:
        assert result.output.startswith("nothing was gathered")
        assert "Next:" not in result.output
        assert "what to do:" in result.output


def test_job_without_pods_is_named_as_missing(tmp_path):
    """As live triage names it: the rest of the bundle says nothing about the job."""
    missing = run_commands(
        tmp_path, Target(namespace="train"), lambda argv: subprocess.CompletedProcess(argv, 0, b'{"items": []}', b"")
    )
    assert [each.what for each in missing] == ["Pods of the job"]


def test_kubeconfig_that_is_a_pipe_is_refused_before_kubectl_waits_for_it(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "pipe"))
    with pytest.raises(InputError, match="is a pipe"):
        run_commands(tmp_path, Target(), pytest.fail)


SLOW_KUBECTL = """#!/bin/sh
case "$*" in
  *"get pods"*) echo '{"items": [{"metadata": {"name": "a"}, "status": {"phase": "Running", "containerStatuses":
    [{"name": "c", "state": {"running": {}}}]}}]}' ;;
  *logs*) : > "$STARTED.$$"; sleep 30 & : > "$STARTED.$!"; : > "$STARTED"; wait ;;
esac
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("verb", ["collect", "triage"])
def test_whoever_is_told_to_end_leaves_nothing_behind(kube, tmp_path, verb, number):
    """In the midst of a fetch: the private folder goes at once, no bundle, no traceback, the status of shells."""
    scratch, started, tools = tmp_path / "tmp", tmp_path / "started", tmp_path / "bin"
    scratch.mkdir()
    tools.mkdir()
    (tools / "kubectl").write_text(SLOW_KUBECTL)
    (tools / "kubectl").chmod(0o755)
    kube.add("pods", pod("train-0", "node-0", "10.0.0.1"))
    release = threading.Event()
    handle = kube.handle

    def stuck(request, method):
        if request.path.split("?")[0].endswith("/log"):
            started.touch()
            release.wait(30)
            request.close_connection = True
            return
        handle(request, method)

    kube.handle = stuck
    options = {"collect": ["--run", "--out", str(tmp_path / "b.tar.gz")], "triage": ["--live"]}[verb]
    environ = os.environ | {
        "TMPDIR": str(scratch), "STARTED": str(started), "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(firstfault.__file__).parents[1]),
    }  # fmt: skip
    argv = [sys.executable, "-m", "firstfault", verb, "-n", "train", *options]
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(started.exists)
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
    release.set()
    assert process.returncode == 128 + number
    assert list(scratch.iterdir()) == []
    assert not list(tmp_path.glob("*b.tar.gz*"))
    kubectls = [int(path.suffix[1:]) for path in tmp_path.glob("started.*")]
    assert bool(kubectls) is (verb == "collect")
    until(lambda: not any(map(is_running, kubectls)))
    assert said.decode() == f"firstfault: ended by {number.name}; what had been gathered was deleted\n"


def until(condition, seconds=30.0):
    """Wait for a condition of another process."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
