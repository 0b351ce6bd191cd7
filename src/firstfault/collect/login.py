"""Logs in to a cluster by the credential plugin that a kubeconfig names, and again when the token has lapsed.

lightkube runs plugins too, but knows only the beta of their protocol, while `v1` has been what current tools write
since Kubernetes 1.22: https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec
from lightkube.config.models import User

from firstfault.errors import InputError
from firstfault.model.redact import redact
from firstfault.model.safe_text import safe_text

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

__all__ = ["Plugin", "PluginAuth", "exec_cluster"]

PLUGIN_TIMEOUT_S = 60
MOST_OF_STDERR = 500
_GROUP = "client.authentication.k8s.io/"
_VERSIONS = ("v1", "v1beta1", "v1alpha1")
_EXTENSION = f"{_GROUP}exec"


class _Variable(msgspec.Struct):
    name: str
    value: str


class Plugin(msgspec.Struct, rename="camel"):
    """The `exec` of a user in a kubeconfig; relative paths in it have been resolved.

    Attributes:
        api_version: Of the protocol that it speaks.
        command: Program.
        args: Its arguments.
        env: Variables that it gets on top of our own.
        install_hint: What the kubeconfig says to somebody who has not got it.
        provide_cluster_info: Whether it wants to know about the cluster.
        interactive_mode: "Always" for one that needs somebody to talk to.
        cluster: What it is told about the cluster then.
    """

    command: str
    api_version: str = f"{_GROUP}v1beta1"
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: str | None = None
    cluster: dict[str, Any] = {}

    def log_in(self) -> User:
        """Run it and return what it answered, as a user.

        Raises:
            InputError: It is not there, fails, or answers no credentials.
        """
        status = self._answer(self._run())
        token, certificate, key = (status.get(n) for n in ("token", "clientCertificateData", "clientKeyData"))
        if not (isinstance(token, str) and token) and not (isinstance(certificate, str) and isinstance(key, str)):
            raise self._error("it answered neither a token nor a certificate with its key")
        return User(
            token=token if isinstance(token, str) else None,
            # The plugin answers PEM where a kubeconfig has base64 of it.
            client_cert_data=base64.b64encode(certificate.encode()).decode() if isinstance(certificate, str) else None,
            client_key_data=base64.b64encode(key.encode()).decode() if isinstance(key, str) else None,
        )

    def _environment(self) -> dict[str, str]:
        """Return its environment, in which it is told that nobody is there to be asked."""
        version = self.api_version.removeprefix(_GROUP)
        if version not in _VERSIONS:
            known = ", ".join(_GROUP + each for each in _VERSIONS)
            raise self._error(f"it speaks {self.api_version}, and only {known} are known")
        if self.interactive_mode == "Always":
            raise self._error("it wants to talk to somebody each time (interactiveMode: Always), and nobody is here")
        spec = {"interactive": False} | ({"cluster": self.cluster} if self.provide_cluster_info else {})
        asked = {"kind": "ExecCredential", "apiVersion": self.api_version, "spec": spec}
        environ = {**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
        return environ | {each.name: each.value for each in self.env or []}

    def _run(self) -> bytes:
        """Return its standard output."""
        argv, environ = [self.command, *(self.args or [])], self._environment()
        try:
            done = subprocess.run(
                argv, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=PLUGIN_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise self._error(f"it gave no answer within {PLUGIN_TIMEOUT_S} s") from error
        except (OSError, ValueError) as error:
            hint = f"install {self.command}, or put it on the PATH"
            why = f"it cannot be started: {getattr(error, 'strerror', None) or error}"
            raise self._error(why, self.install_hint or hint) from error
        if done.returncode:
            # Redacted as a whole: a token that was cut in two would not be known for one.
            said = " ".join(redact(safe_text(done.stderr.decode(errors="replace"))).split())[:MOST_OF_STDERR]
            raise self._error(f"it ended with exit code {done.returncode}: {said or 'it said nothing'}")
        return done.stdout

    def _answer(self, output: bytes) -> dict[str, Any]:
        """Return the `status` of its ExecCredential; its text is not repeated, for it may hold a token."""
        if not output.strip():
            raise self._error("it ended well and answered nothing")
        try:
            answer = json.loads(output)
        except (ValueError, RecursionError) as error:
            raise self._error("what it answered is no JSON") from error
        status = answer.get("status") if isinstance(answer, dict) else None
        if not isinstance(status, dict):
            raise self._error("its answer has no `status`, so it is no ExecCredential")
        return status

    def _error(self, why: str, todo: str = "") -> InputError:
        command = redact(safe_text(shlex.join([self.command, *(self.args or [])])))
        again = "log in anew, then again: "
        if Path(self.command).name in ("aws", "aws-iam-authenticator"):
            again = "log in anew (`aws sso login`, or what gives you AWS credentials), then again: "
        return InputError(
            f"cannot log in to the cluster: the kubeconfig's credential plugin `{command}` failed: {why}",
            todo or f"{again}`kubectl get namespaces` must work first",
        )


class PluginAuth(httpx2.Auth):
    """Sends a plugin's token; where the API server does not take it any more, the plugin is asked for another, once.

    Threads share it: of many that are refused at the same time, one asks, and the others take the new token.

    Args:
        plugin: Where the token comes from.
        token: The first one.
    """

    def __init__(self, plugin: Plugin, token: str) -> None:
        self._plugin = plugin
        self._token = token
        self._failure: InputError | None = None
        self._lock = threading.Lock()

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send a request, and once more after a 401.

        Raises:
            InputError: The plugin does not log in any more; it is not asked again.
        """
        token = self._token
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            request.headers["Authorization"] = f"Bearer {self._renewed(token)}"
            yield request

    def _renewed(self, refused: str) -> str:
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._token == refused:
                try:
                    self._token = self._plugin.log_in().token or refused
                except InputError as error:
                    self._failure = error
                    raise
            return self._token


def exec_cluster(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a plugin is told of a cluster: how to reach it, and what its entry holds for the plugin.

    Args:
        cluster: The entry of the kubeconfig, its paths absolute.

    Raises:
        InputError: The certificate of its authority cannot be read.
    """
    told = {key: cluster[key] for key in ("server", "tls-server-name", "proxy-url") if cluster.get(key)}
    if cluster.get("insecure-skip-tls-verify"):
        told["insecure-skip-tls-verify"] = True
    if cluster.get("certificate-authority-data"):
        told["certificate-authority-data"] = cluster["certificate-authority-data"]
    elif path := cluster.get("certificate-authority"):
        try:
            told["certificate-authority-data"] = base64.b64encode(Path(str(path)).read_bytes()).decode()
        except OSError as error:
            raise InputError(
                f"the certificate authority {path} of the kubeconfig: {error.strerror}", "mend its path there"
            ) from error
    for extension in cluster.get("extensions") or []:
        if isinstance(extension, dict) and extension.get("name") == _EXTENSION:
            told["config"] = extension.get("extension")
    return told
