"""Reads the kubeconfig, and logs in by its credential plugin, with errors that say what is wrong with which of them.

lightkube reads the file; what it takes for granted (entries that refer to each other, a user, a plugin that succeeds)
is checked here. The plugin is run here because lightkube knows only the beta of its protocol, while `v1` has been what
current tools write since Kubernetes 1.22: https://kubernetes.io/docs/reference/config-api/client-authentication.v1/
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstfault.errors import InputError
from firstfault.model.redact import redact
from firstfault.model.safe_text import safe_text

if TYPE_CHECKING:
    from lightkube.config.kubeconfig import KubeConfig, SingleConfig
    from lightkube.config.models import User, UserExec

__all__ = ["read_kubeconfig"]

PLUGIN_TIMEOUT_S = 60
MOST_OF_STDERR = 500
_GROUP = "client.authentication.k8s.io/"
_VERSIONS = ("v1", "v1beta1", "v1alpha1")
_CHOOSE = "set KUBECONFIG or --context; `kubectl config get-contexts` lists what there is"


def read_kubeconfig(context: str | None) -> SingleConfig:
    """Return the cluster and the credentials of a context; a credential plugin has been run.

    Args:
        context: Its name; None for the current one, or the service account inside a cluster.

    Raises:
        InputError: There is no kubeconfig, it is not one, it contradicts itself, or its plugin does not log in.
    """
    from lightkube.config.models import User  # noqa: PLC0415 - heavy, and only needed for live evidence
    from lightkube.core.exceptions import ConfigError  # noqa: PLC0415

    config, where = _load()
    try:
        _refuse_loose_ends(config, context, where)
        single = config.get(context)
    except ConfigError as error:
        raise InputError(f"no usable Kubernetes configuration in {where}: {error}", _CHOOSE) from error
    assert single is not None  # only with a default, which is not given
    if single.user is None:
        return single._replace(user=User())
    return single._replace(user=_log_in(single.user.exec)) if single.user.exec else single


def _load() -> tuple[KubeConfig, str]:
    """Return the configuration and where it was read."""
    import yaml  # noqa: PLC0415 - heavy, and only needed for live evidence
    from lightkube import KubeConfig  # noqa: PLC0415
    from lightkube.config.kubeconfig import SERVICE_ACCOUNT  # noqa: PLC0415
    from lightkube.core.exceptions import ConfigError  # noqa: PLC0415

    named = os.environ.get("KUBECONFIG", "")
    inside = Path(SERVICE_ACCOUNT, "token").exists()
    where = SERVICE_ACCOUNT if inside else named or "~/.kube/config"
    try:
        return (KubeConfig.from_service_account() if inside else KubeConfig.from_file(where)), where
    except KeyError as error:
        problem = f"{error} is missing"
    except (AttributeError, TypeError):
        problem = "it is no mapping with clusters, contexts and users"
    except yaml.YAMLError as error:
        problem = f"it is no YAML: {' '.join(str(error).split())}"
    except (ConfigError, OSError, ValueError) as error:
        problem = str(error)
    todo = _CHOOSE
    if os.pathsep in named:
        todo = "KUBECONFIG lists several files: `kubectl config view --flatten --raw > FILE`, then KUBECONFIG=FILE"
    raise InputError(f"no usable Kubernetes configuration in {where}: {problem}", todo)


def _refuse_loose_ends(config: KubeConfig, context: str | None, where: str) -> None:
    """Refuse a context whose cluster or user the file does not define.

    Raises:
        InputError: Names both.
    """
    name = context or config.current_context
    chosen = config.contexts.get(name) if name else None
    if chosen is None:
        return
    for kind, wanted, there in (("cluster", chosen.cluster, config.clusters), ("user", chosen.user, config.users)):
        if wanted and wanted not in there:
            raise InputError(
                f"no usable Kubernetes configuration in {where}: its context {name!r} names the {kind} {wanted!r}, "
                "which the file does not define",
                "write the entry anew (on EKS: `aws eks update-kubeconfig --name CLUSTER`), or use another --context",
            )


def _log_in(plugin: UserExec) -> User:
    """Run the credential plugin and return what it answered, as a user.

    Raises:
        InputError: It is not there, fails, or answers no credentials.
    """
    from lightkube.config.models import User  # noqa: PLC0415

    status = _answer(plugin, _run(plugin))
    token, certificate, key = (status.get(n) for n in ("token", "clientCertificateData", "clientKeyData"))
    if not (isinstance(token, str) and token) and not (isinstance(certificate, str) and isinstance(key, str)):
        raise _plugin_error(plugin, "it answered neither a token nor a certificate with its key")
    return User(
        token=token if isinstance(token, str) else None,
        # The plugin answers PEM where a kubeconfig has base64 of it.
        client_cert_data=base64.b64encode(certificate.encode()).decode() if isinstance(certificate, str) else None,
        client_key_data=base64.b64encode(key.encode()).decode() if isinstance(key, str) else None,
    )


def _run(plugin: UserExec) -> bytes:
    """Return the standard output of the plugin; it is told that nobody is there to be asked."""
    version = plugin.apiVersion.removeprefix(_GROUP)
    if version not in _VERSIONS:
        raise _plugin_error(
            plugin, f"it speaks {plugin.apiVersion}, and only {', '.join(_GROUP + v for v in _VERSIONS)} are known"
        )
    asked = {"kind": "ExecCredential", "apiVersion": plugin.apiVersion, "spec": {"interactive": False}}
    environ = {**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(asked)}
    environ |= {each.name: each.value for each in plugin.env or []}
    argv = [plugin.command, *(plugin.args or [])]
    try:
        done = subprocess.run(
            argv, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=PLUGIN_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _plugin_error(plugin, f"it gave no answer within {PLUGIN_TIMEOUT_S} s") from error
    except (OSError, ValueError) as error:
        hint = f"install {plugin.command}, or put it on the PATH"
        why = f"it cannot be started: {getattr(error, 'strerror', None) or error}"
        raise _plugin_error(plugin, why, plugin.installHint or hint) from error
    if done.returncode:
        # Redacted as a whole: a token that was cut in two would not be known for one.
        said = " ".join(redact(safe_text(done.stderr.decode(errors="replace"))).split())[:MOST_OF_STDERR]
        raise _plugin_error(plugin, f"it ended with exit code {done.returncode}: {said or 'it said nothing'}")
    return done.stdout


def _answer(plugin: UserExec, output: bytes) -> dict[str, Any]:
    """Return the `status` of the plugin's ExecCredential; its text is not repeated, for it may hold a token."""
    if not output.strip():
        raise _plugin_error(plugin, "it ended well and answered nothing")
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError) as error:
        raise _plugin_error(plugin, "what it answered is no JSON") from error
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, dict):
        raise _plugin_error(plugin, "its answer has no `status`, so it is no ExecCredential")
    return status


def _plugin_error(plugin: UserExec, why: str, todo: str = "") -> InputError:
    command = redact(safe_text(shlex.join([plugin.command, *(plugin.args or [])])))
    again = "log in anew, then again: "
    if Path(plugin.command).name in ("aws", "aws-iam-authenticator"):
        again = "log in anew (`aws sso login`, or what gives you AWS credentials), then again: "
    return InputError(
        f"cannot log in to the cluster: the kubeconfig's credential plugin `{command}` failed: {why}",
        todo or f"{again}`kubectl get namespaces` must work first",
    )
