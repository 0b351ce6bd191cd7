"""Everyday trouble with a kubeconfig: each is an error that says what is wrong with what, and no traceback."""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import shutil
import ssl
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from firstfault.cli.audit import audit
from firstfault.collect.kube import KubeError, KubeReader
from firstfault.collect.kubeconfig import read_kubeconfig
from firstfault.errors import InputError, UsageError
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


def test_what_is_no_yaml_is_told_by_its_place_and_not_quoted(write):
    """A parser shows the line that it cannot read; here it may hold a token."""
    write("users:\n- name: u\n  user: {token: secret-of-u]\n")
    said = problem()
    assert "line 3, column " in said
    assert "secret-of-u" not in said


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


def entry(kind, name, **body):
    return {f"{kind}s": [{"name": name, kind: body}]}


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write kubeconfigs into folders of their own and name all of them in KUBECONFIG, after one that is not there."""

    def write_all(**files):
        paths = [str(tmp_path / "nowhere")]
        for name, content in files.items():
            path = tmp_path / name / "config"
            path.parent.mkdir()
            path.write_text(yaml.safe_dump(content))
            paths.append(str(path))
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))

    return write_all


def test_several_files_are_one_as_kubectl_has_it(put, tmp_path):
    """The first file that defines something counts, and a path is relative to the file in which it stands."""
    token = tmp_path / "b" / "token"
    put(
        a=entry("context", "x", cluster="c", user="u", namespace="train") | {"current-context": "x"},
        b=entry("user", "u", tokenFile="token") | entry("context", "x", cluster="no"),
        c=entry("cluster", "c", server="http://c") | entry("user", "u", token="no") | {"current-context": "no"},
    )
    token.write_text("t")
    access = read_kubeconfig(None)
    assert access.config.namespace == "train"
    assert access.config.cluster.server == "http://c"
    assert access.config.user.token_file == str(token)
    if shutil.which("kubectl"):
        told = subprocess.run(["kubectl", "config", "view", "--minify", "-o", "json"], capture_output=True, check=True)
        seen = json.loads(told.stdout)
        assert seen["clusters"][0]["cluster"]["server"] == access.config.cluster.server
        # kubectl shows paths as they stand in their file.
        assert str(token.parent / seen["users"][0]["user"]["tokenFile"]) == access.config.user.token_file
        assert seen["contexts"][0]["context"]["namespace"] == access.config.namespace


def test_service_account_of_a_pod_is_the_last_resort(put, tmp_path, monkeypatch):
    """As kubectl has it: a kubeconfig that is there was put there by somebody."""
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text("t")
    (account / "namespace").write_text("train")
    monkeypatch.setattr("lightkube.config.kubeconfig.SERVICE_ACCOUNT", str(account))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    put()
    access = read_kubeconfig(None)
    assert (access.config.cluster.server, access.config.namespace) == ("https://[fd00::1]:443", "train")
    put(a=config(user={"token": "own"}))
    assert read_kubeconfig(None).config.user.token == "own"


def test_file_among_several_that_is_none_is_named(put, tmp_path):
    put(a=config(user={}), b=["x"])
    assert str(tmp_path / "b" / "config") in problem()


def test_no_file_at_all_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/a:{tmp_path}/b")
    assert f"{tmp_path}/a, {tmp_path}/b: there is no such file" in problem()


@pytest.mark.parametrize("users", [[{"name": "u", "user": "x"}], [{"user": {}}], ["u"], {"u": {}}])
def test_users_that_are_none_are_refused(write, users):
    write({**config(user={}), "users": users})
    assert "no mapping with clusters, contexts and users" in problem()


@pytest.mark.parametrize("command", ["./bin/login", "../a/bin/login", "login"])
def test_command_of_a_plugin_is_relative_to_its_file_or_sought_in_path(put, tmp_path, monkeypatch, command):
    monkeypatch.chdir("/")
    put(a=config(user={"exec": {"apiVersion": V1, "command": command}}))
    program = tmp_path / "a" / "bin" / "login"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho \'{"status": {"token": "t"}}\'\n')
    program.chmod(0o755)
    if command == "login":
        monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    assert read_kubeconfig(None).config.user.token == "t"


def told_of_the_cluster(write, tmp_path, *, wanted, **cluster):
    """Return what a plugin reads of the cluster in its environment."""
    said = tmp_path / "said"
    shell = f'printf %s "$KUBERNETES_EXEC_INFO" > {said}; echo \'{{"status": {{"token": "t"}}}}\''
    content = config(user={"exec": plugin(shell)["exec"] | {"provideClusterInfo": wanted}})
    content["clusters"][0]["cluster"] |= cluster
    write(content)
    read_kubeconfig(None)
    return json.loads(said.read_text())["spec"]


def test_plugin_that_wants_to_know_the_cluster_is_told(write, tmp_path):
    (tmp_path / "ca.crt").write_text("PEM")
    own = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}]
    spec = told_of_the_cluster(
        write, tmp_path, wanted=True, extensions=own, **{"certificate-authority": "ca.crt", "tls-server-name": "k"}
    )
    assert spec == {
        "interactive": False,
        "cluster": {
            "server": "http://127.0.0.1:1", "tls-server-name": "k", "config": {"audience": "x"},
            "certificate-authority-data": base64.b64encode(b"PEM").decode(),
        },
    }  # fmt: skip
    assert told_of_the_cluster(write, tmp_path, wanted=False) == {"interactive": False}


def test_certificate_authority_that_is_not_there_is_named_to_nobody_but_the_user(write, tmp_path):
    with pytest.raises(InputError, match=r"gone\.crt of the kubeconfig: No such file"):
        told_of_the_cluster(write, tmp_path, wanted=True, **{"certificate-authority": "gone.crt"})


def test_plugin_that_always_talks_is_refused(write):
    write(config(user={"exec": plugin("true")["exec"] | {"interactiveMode": "Always"}}))
    assert "interactiveMode: Always" in problem()


def counting(tmp_path, then="true"):
    """A plugin that answers t-1, t-2, …; `then` runs before each but the first."""
    count = tmp_path / "count"
    return plugin(
        f"if [ -e {count} ]; then {then}; fi; echo x >> {count}; n=$(wc -l < {count}); "
        'echo "{\\"status\\": {\\"token\\": \\"t-$(($n))\\"}}"'
    )


def test_token_that_lapsed_is_renewed_once(write, tmp_path):
    """Many threads that are refused at once get one new token; one that is refused again is an error."""
    with KubeApi() as api:
        write(config(user=counting(tmp_path), server=api.url))
        with KubeReader() as kube:
            api.tokens = {"t-2"}
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda _: list(kube.items("/api/v1/nodes")), range(16)))
            assert answers == [[]] * 16
            assert (tmp_path / "count").read_text() == "x\n" * 2
            api.tokens = {"another"}
            with pytest.raises(KubeError, match="401") as caught:
                list(kube.items("/api/v1/nodes"))
            assert caught.value.status == 401
            assert (tmp_path / "count").read_text() == "x\n" * 3


def test_renewal_that_fails_is_said_and_not_tried_again(write, tmp_path):
    tried = tmp_path / "tried"
    with KubeApi() as api:
        write(config(user=counting(tmp_path, f"echo x >> {tried}; echo expired >&2; exit 1"), server=api.url))
        with KubeReader() as kube:
            api.tokens = {"t-2"}
            for _ in range(3):
                with pytest.raises(KubeError, match="exit code 1: expired"):
                    list(kube.items("/api/v1/nodes"))
    assert tried.read_text() == "x\n"


def test_name_in_the_certificate_may_be_another_than_the_address(write, tmp_path):
    """As behind a tunnel to a private endpoint: `tls-server-name` is what the certificate is checked against."""
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    make_certificate(certificate, key, "cluster.example")
    with KubeApi() as api:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        api.server.socket = context.wrap_socket(api.server.socket, server_side=True)
        content = config(user={"token": "t"}, server=api.url.replace("http:", "https:"))
        content["clusters"][0]["cluster"]["certificate-authority"] = "tls.crt"
        write(content)
        with KubeReader() as kube, pytest.raises(KubeError, match="mismatch"):
            list(kube.items("/api/v1/nodes"))
        content["clusters"][0]["cluster"]["tls-server-name"] = "cluster.example"
        write(content)
        with KubeReader() as kube:
            assert list(kube.items("/api/v1/nodes")) == []


def make_certificate(certificate, key, name):
    """Write a certificate for a name that signs itself."""
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )


@pytest.fixture
def pipe(tmp_path, monkeypatch):
    """A pipe to which nobody writes; opened without care, it keeps its reader for ever."""
    monkeypatch.setattr("firstfault.model.files._WRITER_S", 0.1)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_kubeconfig_that_is_a_pipe_without_a_writer_is_refused(pipe, monkeypatch):
    """`KUBECONFIG=<(command)` whose command has gone: an error, not a hang."""
    monkeypatch.setenv("KUBECONFIG", str(pipe))
    assert "nobody writes" in problem()


def test_kubeconfig_may_come_through_a_pipe_and_the_null_device_is_an_empty_one(pipe, monkeypatch):
    """`KUBECONFIG=<(kubectl config view --raw)`, as kubectl itself takes it."""
    monkeypatch.setattr("firstfault.model.files._WRITER_S", 30)
    monkeypatch.setenv("KUBECONFIG", f"{os.devnull}:{pipe}")
    text = yaml.safe_dump(config(user={"token": "abc"}))
    with subprocess.Popen(["sh", "-c", 'printf %s "$1" > "$2"', "sh", text, str(pipe)]):
        assert read_kubeconfig(None).config.user.token == "abc"


@pytest.mark.parametrize("key", ["certificate-authority", "client-certificate", "client-key", "tokenFile"])
def test_file_that_a_kubeconfig_names_and_that_is_a_pipe_is_refused(write, pipe, key):
    """By the name of the entry and of the file; relative paths too."""
    content = config(user={} if key == "certificate-authority" else {key: "pipe"}, server="https://127.0.0.1:1")
    if key == "certificate-authority":
        content["clusters"][0]["cluster"][key] = "pipe"
    write(content)
    assert f"the {key} of the kubeconfig, {pipe}, is a pipe" in problem()


def test_content_in_the_kubeconfig_counts_before_the_path_beside_it(write, pipe):
    """As kubectl has it; the path is not even looked at."""
    write(config(user={"client-key": "pipe", "client-key-data": "eA==", "client-certificate": "pipe",
                       "client-certificate-data": "eA=="}))  # fmt: skip
    user = read_kubeconfig(None).config.user
    assert (user.client_key, user.client_key_data) == (None, "eA==")


@pytest.mark.parametrize("name", ["a/../b?x=", "Train", "a.b", "-a", "x" * 64])
def test_namespace_of_a_context_that_cannot_be_one_is_refused(write, name):
    content = config(user={})
    content["contexts"][0]["context"]["namespace"] = name
    write(content)
    with pytest.raises(UsageError, match="context 'x': namespace") as caught, KubeReader():
        pass
    assert name in caught.value.what
