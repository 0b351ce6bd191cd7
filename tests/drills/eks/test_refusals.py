"""A cluster that is not as the drill needs it: refused, with nothing changed."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from firstfault.cli.drill import drill
from firstfault.drills import Options, plan_drill, recover, run_drill, runs, state_dir
from firstfault.drills.eks.expected import expected_destroys
from firstfault.drills.journal import read_events
from firstfault.errors import FirstFaultError, UsageError

pytestmark = [pytest.mark.terraform, pytest.mark.aws, pytest.mark.netns, pytest.mark.torch, pytest.mark.slow]
ON = {"enable_aux_sg_vpc_allow": True, "node_sg_enable_recommended_rules": True}
OFF = dict.fromkeys(ON, False)
RULES = {"node": 10, "aux": 1}


def objects(cluster):
    return [key for key in cluster.kube.objects if key[0] in ("pods", "services", "configmaps", "networkpolicies")]


def run(cluster, **changes):
    return run_drill("sg-block", world="eks", options=Options(eks=cluster.options(**changes)))


def test_expected_destroys_come_from_the_configuration(cluster):
    """Eight addresses: seven under one boolean, one under the other; no plan is needed to know them."""
    root = cluster.terraform_dir
    both = expected_destroys(root, ["cluster.auto.tfvars"], ON, OFF)
    assert len(both) == 8
    assert 'terraform_data.node["ephemeral"]' in both
    assert "terraform_data.aux_vpc[0]" in both
    only_aux = expected_destroys(root, ["cluster.auto.tfvars"], ON, {**ON, "enable_aux_sg_vpc_allow": False})
    assert only_aux == ["terraform_data.aux_vpc[0]"]


def test_plan_names_targets_calls_and_reach_and_changes_nothing(cluster):
    before = len(cluster.kube.requests)
    _, change = plan_drill("sg-block", eks=cluster.options())
    text = "\n".join(change.steps)
    assert change.summary == "0 to add, 0 to change, 8 to destroy"
    assert len(change.rules) == 8
    assert cluster.node_sg in text
    assert "would be cut: interface eni-" in text
    assert {method for method, _ in cluster.kube.requests[before:]} == {"GET"}
    assert cluster.rules() == RULES


def test_plan_with_a_ninth_change_is_refused(cluster):
    """The configuration drifted: one more resource would change. Nothing is applied."""
    (cluster.terraform_dir / "drift.auto.tfvars").write_text("extra = false\n")
    with pytest.raises(FirstFaultError, match="extra"):
        run(cluster)
    assert cluster.rules() == RULES
    assert objects(cluster) == []


def test_toggle_that_also_moves_something_else_is_refused(cluster):
    """A resource that the evaluation of the configuration does not tie to the variables, but the plan does."""
    main = cluster.terraform_dir / "main.tf"
    text = main.read_text().replace('input = "nothing"', "input = var.node_sg_enable_recommended_rules")
    main.write_text(text)
    cluster.terraform("apply", "-auto-approve", "-input=false")
    with pytest.raises(UsageError, match=r"would also update terraform_data\.extra"):
        run(cluster)
    assert cluster.rules() == RULES
    assert objects(cluster) == []


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (
            lambda c: c.ec2.delete_tags(Resources=[c.node_sg], Tags=[{"Key": "firstfault/drill"}]),
            "does not allow drills",
        ),
        (
            lambda c: c.kube.add(
                "pods",
                {
                    "metadata": {"name": "web", "namespace": "prod"},
                    "spec": {"nodeName": "node-0"},
                    "status": {"phase": "Running"},
                },
            ),
            "prod/web",
        ),
    ],
    ids=["consent", "foreign"],
)
def test_target_that_may_not_be_cut_is_refused(cluster, spoil, words):
    spoil(cluster)
    with pytest.raises(UsageError, match=words):
        run(cluster)
    assert cluster.rules() == RULES
    assert [key for key in objects(cluster) if key[2] != "web"] == []


def test_credentials_that_lapse_before_the_deadline_are_refused(cluster, monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", (dt.datetime.now(dt.UTC) + dt.timedelta(minutes=12)).isoformat())
    with pytest.raises(UsageError, match="lapse"):
        run(cluster)
    assert cluster.rules() == RULES


def test_second_drill_is_refused_while_the_first_holds_the_namespace(cluster):
    lock = {
        "metadata": {"name": "firstfault-drill-lock", "namespace": "train", "labels": {"firstfault/run": "other"}},
        "data": {},
    }
    cluster.kube.add("configmaps", lock)
    with pytest.raises(UsageError, match="another drill holds"):
        run(cluster)
    assert ("configmaps", "train", "firstfault-drill-lock") in cluster.kube.objects


def test_name_that_is_taken_is_not_touched(cluster):
    """A Service called nccl-master that is somebody's stays."""
    cluster.kube.add("services", {"metadata": {"name": "nccl-master", "namespace": "train"}, "spec": {}})
    with pytest.raises(UsageError, match="nccl-master"):
        run(cluster)
    assert ("services", "train", "nccl-master") in cluster.kube.objects
    assert cluster.rules() == RULES


def test_pods_that_are_never_scheduled_end_the_drill_before_any_fault(cluster):
    """No baseline, no injection: the report says why the Pods did not run."""

    def unschedulable(plural, pod):
        if plural == "pods":
            message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
            pod["status"] = {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
                ],
            }

    cluster.kube.on_create = unschedulable
    report = run(cluster, max_duration_s=40)
    assert [phase.name for phase in report.phases] == ["baseline"]
    assert not report.as_expected
    assert report.verdict is not None
    assert report.verdict.layer in ("infra", "driver")
    assert cluster.rules() == RULES
    assert objects(cluster) == []


def test_throttled_api_is_waited_out(cluster):
    cluster.kube.fail("/api/v1/namespaces/train/pods", 429, times=3, method="GET", Retry_After="0")
    report = run(cluster, injector="ec2")
    assert report.as_expected
    assert report.restored


def test_nothing_happens_without_yes(cluster):
    result = CliRunner().invoke(
        drill, ["run", "sg-block", "--world", "eks", "--terraform-dir", str(cluster.terraform_dir)]
    )
    assert isinstance(result.exception, UsageError)
    assert "--yes" in str(result.exception)
    assert cluster.rules() == RULES


# -- kills -------------------------------------------------------------------------------------------------------------


def start(cluster, *extra):
    argv = [
        sys.executable, "-m", "firstfault", "drill", "run", "sg-block", "--world", "eks", "--yes", "--gpus", "0",
        "--terraform-dir", str(cluster.terraform_dir), "-n", "train", "--max-duration", "5m", "--format", "json", *extra,
    ]  # fmt: skip
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ.copy())


def wait_for(what, seconds=90):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def events():
    found = runs(state_dir())
    return [each.get("event") for each in read_events(found[-1])] if found else []


def terraform_calls():
    found = runs(state_dir())
    return [each["what"] for each in read_events(found[-1]) if each.get("event") == "terraform-child"] if found else []


@pytest.mark.parametrize("moment", ["between apply and restore", "during terraform apply", "before the fault"])
def test_sigkill_is_made_good_by_the_watchdog(cluster, moment):
    """Nobody is left to call recover: the watchdog restores the rules and deletes what was created."""
    reached = {
        "between apply and restore": lambda: "injected" in events(),
        "during terraform apply": lambda: "apply" in terraform_calls(),
        "before the fault": lambda: "job-started" in events(),
    }[moment]
    process = start(cluster)
    try:
        wait_for(reached)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    wait_for(lambda: "run-ended" in events())
    assert cluster.rules() == RULES
    assert objects(cluster) == []
    assert recover(state_dir()) == [], "nothing is owed any more"
    assert not (runs(state_dir())[-1] / "private").exists(), "no plan of the killed process is left"


def test_what_cannot_be_restored_is_said_exactly(cluster):
    """Somebody else changed the configuration meanwhile: their change is not applied, and the debt is named."""
    process = start(cluster)
    try:
        wait_for(lambda: "injected" in events())
        (cluster.terraform_dir / "drift.auto.tfvars").write_text("extra = false\n")
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 4
    assert output == b""
    failed = [each for each in read_events(runs(state_dir())[-1]) if each.get("event") == "undo-failed"]
    assert "delete terraform_data.extra[0]" in failed[0]["error"]
    assert "create terraform_data.aux_vpc[0]" in failed[0]["error"]
    (cluster.terraform_dir / "drift.auto.tfvars").unlink()
    wait_for(lambda: "run-ended" in events())
    assert cluster.rules() == RULES


def test_journal_and_logs_hold_no_plan(cluster):
    """Plan files may hold secrets: none enters the run's folder."""
    run_report = run(cluster, injector="terraform")
    folder = runs(state_dir())[-1]
    assert run_report.restored
    assert [path.name for path in folder.rglob("*plan*")] == []
    journal = (folder / "journal.jsonl").read_text()
    assert "resource_changes" not in journal
    assert json.loads(journal.splitlines()[0])
