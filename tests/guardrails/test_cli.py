"""`firstfault guard` from the command line: exit codes, JSON, and errors without tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from firstfault.cli.guard import guard
from firstfault.errors import InputError, UsageError
from firstfault.model import files


def run(*args):
    return CliRunner().invoke(guard, list(args), standalone_mode=False)


def test_render_writes_a_tree_and_says_what_it_did(tmp_path):
    """JSON names each file's fate."""
    done = run("render", "--out", str(tmp_path / "t"), "--with", "prometheus-operator", "--format", "json")

    answer = json.loads(done.output)
    assert answer["schema"] == "firstfault.guard/1"
    assert {change["action"] for change in answer["changes"]} == {"add"}
    assert (tmp_path / "t" / "kustomization.yaml").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--namespace", "Bad_Name"), ("--iteration-slo", "abc"), ("--iteration-slo", "0"), ("--cluster", "$(id)"),
        ("--git-repo", "x;rm"), ("--terraform-role", 'a"b'), ("--node-role", "a\nb"), ("--evidence-bucket", "a b"),
        ("--smoke-image", "a\n- b"), ("--exclude-namespaces", "a,B"), ("--instance-types", "p5"),
        ("--gpu-node-label", 'a="b"}'), ("--terraform-role", "*"), ("--terraform-role", "*a*"), ("--node-role", "?*"),
        ("--git-repo", "javascript:x"), ("--git-repo", "file:///etc/x"),
    ],
)  # fmt: skip
def test_names_that_would_break_a_rendered_file_are_refused(tmp_path, option, value):
    """Nothing is written, and the message names the option."""
    answer = run("render", "--out", str(tmp_path / "t"), option, value)

    assert isinstance(answer.exception, UsageError)
    assert option in str(answer.exception)
    assert not (tmp_path / "t").exists()


def test_names_of_every_allowed_form_are_taken(tmp_path):
    """Paths of roles, wildcards, SSH addresses and digests are in use."""
    answer = run(
        "render", "--out", str(tmp_path / "t"), "--terraform-role", "ci/terraform@prod", "--node-role", "*-ng-?",
        "--git-repo", "git@github.com:org/cluster.git", "--smoke-image", "r.example.com:5000/a/b@sha256:" + "0" * 64,
        "--gpu-node-label", "example.com/gpu=true", "--with", "argocd,gpu-operator",
    )  # fmt: skip

    assert answer.exception is None


def test_dry_run_writes_nothing(tmp_path):
    """It says what would change."""
    done = run("render", "--out", str(tmp_path / "t"), "--dry-run")

    assert "would write" in done.output
    assert not (tmp_path / "t").exists()


def test_only_takes_ids_and_items(tmp_path):
    """B4 is served by several guardrails, gpu-lost is one."""
    run("render", "--out", str(tmp_path / "t"), "--only", "b4,gpu-lost")

    names = {path.stem for path in (tmp_path / "t" / "prometheus" / "rules").iterdir()}
    assert {"gpu-allocatable", "gpu-lost"} <= names
    assert "xid" not in names


def test_budget_answers_in_json():
    """The schema is that of the contract."""
    answer = json.loads(run("budget", "--format", "json").output)

    assert answer["schema"] == "firstfault.guard/1"
    assert len(answer["scenarios"]) == 7


def test_budget_takes_the_clusters_own_intervals():
    """A scrape every minute shows up in the sum."""
    fast = json.loads(run("budget", "--format", "json").output)
    slow = json.loads(run("budget", "--format", "json", "--scrape", "kube-state-metrics=60s").output)

    assert slow["scenarios"][1]["budget_s"] == fast["scenarios"][1]["budget_s"] + 50


@pytest.mark.parametrize(
    "args",
    [
        ("--profile", "gke"),
        ("--with", "datadog"),
        ("--with", "argocd,flux"),
        ("--profile", "eks-auto", "--with", "gpu-operator"),
        ("--kubernetes-version", "latest"),
        ("--kubernetes-version", "1.20"),
        ("--kubernetes-version", "9.99"),
        ("--keep-edits", "--overwrite"),
        ("--only", "nonsense"),
        ("--gpu-node-label", "gpu"),
        ("--scrape", "dcgm-exporter"),
        ("--smoke-period", "7m"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_do(tmp_path, args):
    """A usage error, not a traceback and not a half-written tree."""
    done = run("render", "--out", str(tmp_path / "t"), *args)

    assert isinstance(done.exception, UsageError), done.exception
    assert "what to do" in str(done.exception)
    assert not (tmp_path / "t").exists()


def test_unknown_versions_and_types_are_told(tmp_path):
    """They may be newer than this version: rendered all the same, with a word and the names that are known."""
    args = ("--kubernetes-version", "1.37", "--instance-types", "g5.13xlarge,p5.48xlarge,q9.large")
    done = run("render", "--out", str(tmp_path / "t"), *args)

    assert done.exit_code == 0, done.output
    assert "1.37 is newer" in done.stderr
    assert "g5.13xlarge is known" in done.stderr
    assert "g5.12xlarge" in done.stderr
    assert "q9.large is known" in done.stderr
    assert "p5.48xlarge is known" not in done.stderr
    assert run("render", "--out", str(tmp_path / "u"), "--instance-types", "g5.xlarge").stderr == ""


def test_lock_reads_pipes_and_does_not_wait_for_one_without_a_writer(tmp_path, monkeypatch):
    """`<(terraform show -json …)` is a pipe; a pipe to which nobody writes is an error, not a hang."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(files, "_WRITER_S", 0.1)
    done = run("lock", str(pipe))
    assert isinstance(done.exception, InputError)
    assert "nobody writes" in str(done.exception)

    monkeypatch.setattr(files, "_WRITER_S", 30)
    plan = json.dumps({"planned_values": {}, "resource_changes": [], "pad": " " * 100_000})
    with subprocess.Popen([sys.executable, "-c", f"open({str(pipe)!r}, 'w').write({plan!r})"]):
        assert json.loads(run("lock", str(pipe), "--format", "json").output)["result"] == "pass"


@pytest.mark.parametrize("kind", ["folder", "device", "nothing"])
def test_lock_of_what_is_no_file(tmp_path, kind):
    """A folder, a device without an end and a missing file: a clear error each."""
    path = {"folder": tmp_path, "device": "/dev/zero", "nothing": tmp_path / "nothing"}[kind]
    assert isinstance(run("lock", str(path)).exception, InputError)


@pytest.mark.parametrize("there", [False, True], ids=["new folder", "folder of somebody"])
def test_full_disk_leaves_no_empty_folder(tmp_path, there):
    """No file may grow, as on a full disk: it is said, and a folder that was not there before is not there after."""
    out = tmp_path / "new" / "guard"
    if there:
        out.mkdir(parents=True)
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$0" -m firstfault guard render --out "$1"', sys.executable, str(out)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert [path.name for path in tmp_path.rglob("*")] == (["new", "guard"] if there else [])
