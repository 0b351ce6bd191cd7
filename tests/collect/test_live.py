"""Live evidence: read-only calls, one unreachable API degrades only itself, the union of the real interfaces decides."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from firstfault.cli.audit import audit
from firstfault.cli.collect import collect
from firstfault.cli.triage import triage_command
from firstfault.collect import gather_live
from firstfault.collect.cloud import CloudSnapshot, PodPlace, ec2_place, find_interface
from firstfault.collect.commands import Target
from firstfault.collect.configuration import gather_configuration
from firstfault.drills import EksOptions
from firstfault.errors import InputError, UsageError
from support.kube_api import KubeApi

from .conftest import WORKER_LOG, node, pod

pytestmark = pytest.mark.aws


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def test_open_port_between_two_pods_is_answered_from_the_union_of_their_groups(kube, nodes, out):
    """Each of the two rules keeps 29500 open; without both it is dropped, and the sentence names the groups."""
    assert gather_live(out, selector="job=allreduce") == []
    lines = (out / "reachability.txt").read_text().splitlines()
    assert lines[0].startswith(
        "reachability train/nccl-worker-0 -> train/nccl-master-0 tcp 29500 open by=security groups"
    )
    assert len(lines) == 2

    nodes.block()
    assert gather_live(out, selector="job=allreduce") == []
    lines = (out / "reachability.txt").read_text().splitlines()
    assert lines[0].startswith(
        "reachability train/nccl-worker-0 -> train/nccl-master-0 tcp 29500 dropped by=security groups"
    )
    assert nodes.node_sg in lines[0]
    assert nodes.aux_sg in lines[0]


def test_only_reads(kube, nodes, out):
    """Nothing but GET reaches the API server."""
    gather_live(out)
    assert {method for method, _ in kube.requests} == {"GET"}


def test_logs_of_restarted_containers_come_with_the_previous_ones(kube, out):
    """The log that explains a crash loop is the previous one."""
    crashing = pod("serve-0", "node-0", "10.0.0.9")
    crashing["status"]["containerStatuses"][0]["restartCount"] = 3
    kube.add("pods", crashing)
    kube.logs["train", "serve-0", "trainer", False] = "starting\n"
    kube.logs["train", "serve-0", "trainer", True] = "ValueError: boom\n"
    assert gather_live(out) == []
    assert (out / "logs/serve-0/trainer.previous.log").read_text() == "ValueError: boom\n"
    assert (out / "logs/serve-0/trainer.log").read_text() == "starting\n"


def test_forbidden_list_degrades_only_itself(kube, out):
    """A sensor that could not look is named, with the command that would get it; the rest is read."""
    kube.add("nodes", node("node-0"))
    kube.add("pods", pod("a", "node-0", "10.0.0.1"))
    kube.logs["train", "a", "trainer", False] = "x\n"
    kube.fail("/api/v1/nodes", 403)
    missing = gather_live(out)
    assert [entry.what for entry in missing] == ["nodes.json"]
    assert "403" in missing[0].why
    assert missing[0].command == "kubectl get nodes -o json"
    assert "pods.json" in files(out)
    assert "logs/a/trainer.log" in files(out)


def test_cut_connection_is_an_unread_source_not_a_crash(kube, out):
    kube.add("pods", pod("a", "node-0", "10.0.0.1"))
    kube.logs["train", "a", "trainer", False] = "x\n"
    kube.fail("/api/v1/namespaces/train/events", 0)
    assert [entry.what for entry in gather_live(out)] == ["events.json"]


def test_throttling_is_waited_out(kube, out):
    kube.add("pods", pod("a", "node-0", "10.0.0.1"))
    kube.logs["train", "a", "trainer", False] = "x\n"
    kube.fail("/api/v1/namespaces/train/pods", 429, times=1, Retry_After="0")
    assert gather_live(out) == []


def test_unlistable_pods_are_an_error_that_says_what_to_do(kube, out):
    kube.fail("/api/v1/namespaces/train/pods", 401)
    with pytest.raises(InputError, match="401") as caught:
        gather_live(out)
    assert "log in again" in caught.value.todo


def test_no_pod_matches_is_said(kube, out):
    missing = gather_live(out, selector="job=gone")
    assert missing[0].what == "Pods of the job"
    assert "job=gone" in missing[0].why


def test_missing_aws_rights_degrade_to_unknown(kube, out, monkeypatch):
    """Nodes are EC2 instances but no credentials exist: the groups are missing, everything else is read."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    kube.add("nodes", node("node-0", "aws:///ap-northeast-2a/i-0123456789abcdef0"))
    kube.add("pods", pod("a", "node-0", "192.168.0.9"))
    kube.logs["train", "a", "trainer", False] = "x\n"
    missing = gather_live(out)
    assert [entry.what for entry in missing] == ["security groups of the Pods' interfaces"]
    assert "i-0123456789abcdef0" in missing[0].command


@pytest.mark.parametrize(
    "variable", ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CA_BUNDLE"]
)
def test_aws_file_that_is_a_pipe_degrades_to_unknown(kube, out, tmp_path, monkeypatch, variable):
    """The SDK would wait for its writer for ever; what Kubernetes says is read all the same."""
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv(variable, str(tmp_path / "pipe"))
    kube.add("pods", pod("train-0", "node-0", "10.0.0.1"))
    kube.add("nodes", node("node-0", "aws:///eu-west-1a/i-0123456789abcdef0"))
    kube.logs["train", "train-0", "trainer", False] = WORKER_LOG
    (missing,) = gather_live(out)
    assert missing.what == "security groups of the Pods' interfaces"
    assert f"{variable} of the AWS SDK, {tmp_path / 'pipe'}, is a pipe" in missing.why
    assert (out / "pods.json").exists()
    (missing,) = gather_configuration(out)
    assert (missing.what, variable in missing.why) == ("EC2 quotas", True)


@pytest.mark.parametrize("name", ["a/../b?x=", "..", "train/pods", "Train", "a.b", "a%2fb", "x" * 64, "train\n"])
def test_namespace_that_cannot_be_one_is_refused_before_any_call(kube, name):
    """It would become a part of the path, and ask for something else than what its role allows to be asked."""
    result = CliRunner().invoke(triage_command, ["--live", "-n", name], standalone_mode=False)
    assert isinstance(result.exception, UsageError)
    assert repr(name) in result.exception.what
    assert kube.requests == []
    with pytest.raises(UsageError, match="--namespace"):
        Target(namespace=name)
    with pytest.raises(UsageError, match="--namespace"):
        EksOptions(namespace=name)


@pytest.mark.parametrize("selector", ["a=b&watch=true", "a in (b,c)", "a=b#c", "a=100%25+x", "a=b?limit=1;c=d"])
def test_selector_goes_to_the_api_as_one_value_of_the_query(kube, out, selector):
    """Whatever stands in it is no other parameter."""
    with contextlib.suppress(InputError, ValueError):
        gather_live(out, selector=selector)
    method, path = next(each for each in kube.requests if "/pods?" in each[1])
    query = parse_qs(urlsplit(path).query, strict_parsing=True, separator="&")
    assert (method, query) == ("GET", {"limit": ["500"], "labelSelector": [selector]})


def test_names_that_an_api_server_cannot_give_never_become_paths(kube, out, tmp_path):
    """A server that is none must not choose where files are written."""
    for name in ("../../escaped", "-o", "/tmp/x"):
        kube.add("pods", pod(name, "node-0", "10.0.0.1"))
    good = kube.add("pods", pod("train-0", "node-0", "10.0.0.1"))
    good["status"]["containerStatuses"].append({**good["status"]["containerStatuses"][0], "name": "../../escaped"})
    kube.logs["train", "train-0", "trainer", False] = WORKER_LOG
    gather_live(out)
    assert [path.name for path in tmp_path.rglob("*.log")] == ["trainer.log"]
    assert [path for _, path in kube.requests if "escaped" in path] == []


def test_many_pages_are_followed(kube, out):
    for index in range(1203):
        kube.add("events", {"metadata": {"name": f"e{index}", "namespace": "train"}, "message": "m"})
    gather_live(out)
    events = json.loads((out / "events.json").read_text())["items"]
    assert len(events) == 1203
    assert {event["kind"] for event in events} == {"Event"}


def test_interface_is_found_by_address_prefix_or_branch():
    """Secondary addresses, delegated prefixes, and branch interfaces of security groups for Pods."""
    plain = {"NetworkInterfaceId": "eni-1", "SubnetId": "s", "Groups": [{"GroupId": "sg-1"}],
             "PrivateIpAddresses": [{"PrivateIpAddress": "10.0.0.5"}]}  # fmt: skip
    prefixed = {"NetworkInterfaceId": "eni-2", "SubnetId": "s", "Groups": [{"GroupId": "sg-2"}],
                "Ipv4Prefixes": [{"Ipv4Prefix": "10.0.1.0/28"}]}  # fmt: skip
    branch = {"NetworkInterfaceId": "eni-3", "SubnetId": "s", "Groups": [{"GroupId": "sg-3"}]}
    snapshot = CloudSnapshot(interfaces=[plain, prefixed, branch], groups=[], acls=[])

    def groups_of(address, eni=""):
        place = PodPlace(name="a/b", address=address, node="n", instance="i-1", branch_eni=eni)
        found = find_interface(snapshot, place)
        return found and set(found.groups)

    assert groups_of("10.0.0.5") == {"sg-1"}
    assert groups_of("10.0.1.7") == {"sg-2"}
    assert groups_of("10.0.9.9", "eni-3") == {"sg-3"}
    assert groups_of("10.0.9.9") is None


def test_context_that_does_not_exist_is_named(tmp_path, monkeypatch, out):
    with KubeApi() as api:
        monkeypatch.setenv("KUBECONFIG", api.kubeconfig(tmp_path))
        with pytest.raises(InputError, match="nowhere"):
            gather_live(out, context="nowhere")


def triage_live(*options):
    result = CliRunner().invoke(triage_command, ["--live", "--format", "json", *options], standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, json.loads(result.output)


def test_live_triage_names_the_security_group_fault(kube, nodes):
    """From the API server, the ranks' logs and EC2 alone: the groups lack the rule; the store's time-out follows."""
    kube.logs["train", "nccl-worker-0", "trainer", False] = WORKER_LOG
    nodes.block()
    code, report = triage_live("--namespace", "train", "--selector", "job=allreduce")
    assert code == 1
    assert report["verdict"]["cause"] == "infra.securitygroup.missing-source"
    assert any("network.c10d.unreachable" in each for each in report["verdict"]["consequences"])
    assert any("tcp 29500 dropped" in each["text"] for each in report["verdict"]["evidence"])
    assert report["missing"] == []


def test_live_triage_is_never_healthy_on_logs_that_it_could_not_read(kube):
    """Exit code 3 and the command for the log, whatever the rest looks like."""
    kube.add("nodes", node("node-0"))
    kube.add("pods", pod("a", "node-0", "10.0.0.1", exit_code=0))
    kube.fail("/api/v1/namespaces/train/pods/a/log", 403)
    code, report = triage_live()
    assert code == 3
    assert report["status"] == "unknown"
    assert report["missing"][0]["command"].startswith("kubectl logs -n train a -c trainer")


@pytest.mark.parametrize(
    ("provider", "place"),
    [
        ("aws:///us-west-2a/i-0123456789abcdef0", ("us-west-2", "i-0123456789abcdef0")),
        ("aws:///us-gov-west-1b/i-0a", ("us-gov-west-1", "i-0a")),
        ("aws:///us-west-2-lax-1a/i-0a", ("us-west-2", "i-0a")),
        ("aws:///us-east-1-wl1-bos-wlz-1/i-0a", ("us-east-1", "i-0a")),
        ("aws:///eu-central-1c/fargate-ip-10-0-0-1", ("eu-central-1", "")),
        ("gce://project/zone/name", (None, "")),
        ("", (None, "")),
    ],
)
def test_region_is_read_off_any_zone(provider, place):
    """Local and Wavelength Zones lengthen the region's name; nodes elsewhere have none."""
    assert ec2_place({"spec": {"providerID": provider}}) == place


@pytest.mark.parametrize(
    ("verb", "options", "kind"),
    [
        (triage_command, ["--live"], "live"),
        (audit, ["--live"], "audit"),
        (collect, ["--run", "--out", "bundle.tar.gz"], "collect"),
    ],
)
def test_what_a_killed_run_gathered_is_deleted_by_the_next(kube, tmp_path, monkeypatch, verb, options, kind):
    """Logs and objects of a cluster do not stay behind; the files of the new run lie directly in its folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f"firstfault-{kind}-killed"
    left.mkdir()
    (left / "pods.json").write_text("{}")
    lock = tmp_path / f"{left.name}.lock"
    lock.touch()
    os.utime(lock, (0, 0))
    kube.add("pods", pod("train-0", "node-0", "10.0.0.9"))
    result = CliRunner().invoke(verb, [*options, "--format", "json"], standalone_mode=False)
    assert result.exception is None, result.output
    assert not list(tmp_path.glob(f"firstfault-{kind}-*")), "neither the old folder nor that of this run is left"
    if kind == "live":
        (name,) = {Path(each["name"]).parent for each in json.loads(result.stdout)["sources"]}
        assert name.parent == tmp_path
