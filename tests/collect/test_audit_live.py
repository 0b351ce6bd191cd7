"""`audit --live`: what the cluster is configured to do, read-only, and never judged absent when it was not read."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from firstfault.cli.audit import audit
from firstfault.collect import gather_configuration


def run(*options):
    result = CliRunner().invoke(audit, ["--live", "--format", "json", *options], standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, json.loads(result.stdout), result.stderr


def deployment(**spec):
    container = {"name": "vllm", "image": "vllm/vllm-openai:v0.9.0", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {"containers": [container], **spec}
    return {
        "metadata": {"name": "vllm", "namespace": "serve", "managedFields": [{"manager": "kubectl"}]},
        "spec": {"template": {"spec": pod}},
    }


def distributed():
    """Two ranks that find each other by MASTER_ADDR."""
    env = [{"name": "MASTER_ADDR", "value": "train-0.train"}, {"name": "WORLD_SIZE", "value": "2"}]
    container = {"name": "rank", "image": "train:1", "env": env, "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    return {"replicas": 2, "template": {"spec": {"containers": [container], "enableServiceLinks": False}}}


def failed(report):
    return {finding["check"] for finding in report["findings"] if finding["result"] == "fail"}


def test_open_hole_of_a_live_object_is_found_and_a_closed_one_is_not(kube):
    kube.add("deployments", deployment())
    code, report, _ = run("--check", "service-links-enabled")
    assert code == 1
    assert failed(report) == {"service-links-enabled"}
    kube.add("deployments", deployment(enableServiceLinks=False))
    code, report, _ = run("--check", "service-links-enabled")
    assert code == 0
    assert failed(report) == set()
    assert {method for method, _ in kube.requests} == {"GET"}


def test_kind_that_may_not_be_read_is_said_and_absence_is_not_judged(kube):
    """No CronJob was seen because none could be looked at: that is unknown, not a missing smoke test."""
    kube.add("statefulsets", {**deployment(enableServiceLinks=False), "spec": distributed()})
    assert "nccl-smoke-missing" in failed(run("--check", "nccl-smoke-missing")[1])
    kube.fail("/apis/batch/v1/cronjobs", 403)
    code, report, said = run("--check", "nccl-smoke-missing")
    assert "nccl-smoke-missing" not in failed(report)
    assert code == 3
    assert "kubectl get cronjobs.batch -A -o json" in said


def test_permissions_are_read_only(kube):
    result = CliRunner().invoke(audit, ["--permissions"], standalone_mode=False)
    role, policy = result.output.split("---\n")
    assert {verb for rule in yaml.safe_load(role)["rules"] for verb in rule["verbs"]} == {"get", "list"}
    assert json.loads(policy)["Statement"][0]["Action"] == ["servicequotas:ListServiceQuotas"]


@pytest.mark.aws
def test_quotas_of_the_account_are_read_where_nodes_are_instances(kube, nodes, tmp_path):
    """Moto serves Service Quotas; the file has the form that the quota checks read."""
    folder = tmp_path / "configuration"
    folder.mkdir()
    missing = gather_configuration(folder)
    assert [each.what for each in missing if "quota" in each.what.lower()] == [] or "quota" in missing[-1].why.lower()
    assert (folder / "core-nodes.json").is_file()
