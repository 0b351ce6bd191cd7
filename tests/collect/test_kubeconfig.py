"""Everyday trouble with a kubeconfig: each is an error that says what is wrong with what, and no traceback."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from firstfault.cli.audit import audit
from firstfault.collect.kube import KubeReader
from firstfault.errors import InputError
from support.kube_api import KubeApi

V1 = "client.authentication.k8s.io/v1"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a kubeconfig, as text or as a mapping, and point KUBECONFIG at it."""

    def put(content):
        path = tmp_path / "kubeconfig"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        monkeypatch.setenv("KUBECONFIG", str(path))

    return put


def config(*, user, server="http://127.0.0.1:1"):
    return {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }


def plugin(shell, version=V1):
    return {"exec": {"apiVersion": version, "command": "sh", "args": ["-c", shell]}}


def problem():
    with pytest.raises(InputError) as caught, KubeReader():
        pass
    assert caught.value.todo
    return caught.value.what


@pytest.mark.parametrize("content", ["", "[]", "hello", "a: [", "\x00", "{}", "contexts: []\n"])
def test_file_that_is_no_kubeconfig_is_refused_by_name(write, tmp_path, content):
    write(content)
    assert str(tmp_path / "kubeconfig") in problem()


@pytest.mark.parametrize(("gone", "said"), [("clusters", "the cluster 'c'"), ("users", "the user 'u'")])
def test_context_that_names_what_is_not_there_is_refused_by_both_names(write, gone, said):
    write({**config(user={}), gone: []})
    assert "context 'x'" in problem()
    assert said in problem()


@pytest.mark.parametrize("version", [V1, f"{V1}beta1"])
@pytest.mark.parametrize(
    ("shell", "said"),
    [
        ("echo 'Token has expired and refresh failed' >&2; exit 255", "exit code 255: Token has expired"),
        ("true", "answered nothing"),
        ("echo no", "no JSON"),
        ("echo '[]'", "no `status`"),
        ('echo \'{"status": {"token": ""}}\'', "neither a token nor a certificate"),
    ],
)
def test_plugin_that_does_not_log_in_is_named_with_its_own_words(write, version, shell, said):
    write(config(user=plugin(shell, version)))
    assert "credential plugin" in problem()
    assert said in problem()


def test_plugin_that_is_not_there_or_speaks_another_protocol_is_named(write):
    write(config(user={"exec": {"apiVersion": V1, "command": "/nonexistent/aws"}}))
    assert "`/nonexistent/aws` failed: it cannot be started" in problem()
    write(config(user=plugin("true", f"{V1}alpha9")))
    assert "alpha9" in problem()


def test_aws_login_that_lapsed_says_how_to_log_in(write, tmp_path):
    aws = tmp_path / "aws"
    aws.write_text("#!/bin/sh\nexit 255\n")
    aws.chmod(0o755)
    write(config(user={"exec": {"apiVersion": V1, "command": str(aws), "args": ["eks", "get-token"]}}))
    with pytest.raises(InputError, match="exit code 255") as caught, KubeReader():
        pass
    assert "aws sso login" in caught.value.todo


def test_secret_in_what_a_plugin_says_is_not_repeated(write):
    write(config(user=plugin("echo 'password=hunter2hunter2' >&2; exit 1")))
    assert "hunter2" not in problem()


def test_token_of_a_plugin_of_the_current_protocol_is_used(write):
    """The plugin is told which version is wanted, and that nobody is there to be asked."""
    answer = '{"status": {"token": "t-1"}}'
    check = f'case "$KUBERNETES_EXEC_INFO" in *\'"{V1}"\'*\'"interactive": false\'*) ;; *) exit 9 ;; esac'
    with KubeApi() as api:
        write(config(user=plugin(f"{check}; echo '{answer}'"), server=api.url))
        with KubeReader() as kube:
            assert list(kube.items("/api/v1/namespaces/default/pods")) == []


def test_user_without_credentials_is_anonymous(write):
    with KubeApi() as api:
        content = config(user={}, server=api.url)
        del content["contexts"][0]["context"]["user"]
        write(content)
        with KubeReader() as kube:
            assert list(kube.items("/api/v1/nodes")) == []


def test_audit_of_a_cluster_that_does_not_answer_says_so(write):
    write(config(user={"token": "abc"}))
    result = CliRunner().invoke(audit, ["--live"], standalone_mode=False)
    assert isinstance(result.exception, InputError)
    assert "no answer from the API server" in result.exception.what


def test_audit_of_a_cluster_that_shows_nothing_names_the_first_refusal(kube):
    kube.fail("/api", 403)
    result = CliRunner().invoke(audit, ["--live", "--format", "json"], standalone_mode=False)
    assert isinstance(result.exception, InputError)
    assert "403" in result.exception.what
    assert "--permissions" in result.exception.todo
