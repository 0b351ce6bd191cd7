"""Reads the kubeconfig as kubectl does, with errors that say what is wrong with which file.

lightkube makes the client of it. What it does not do is done here: several files in KUBECONFIG, paths relative to the
file that names them, and the checks of what it takes for granted (entries that refer to each other, a user). The rules:
https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from firstfault.errors import InputError
from firstfault.model.files import read_whole, refuse_special
from firstfault.model.yaml_errors import yaml_problem

if TYPE_CHECKING:
    from lightkube.config.kubeconfig import KubeConfig, SingleConfig
    from lightkube.config.models import Cluster, User

    from firstfault.collect.login import Plugin

__all__ = ["Access", "read_kubeconfig"]

DEFAULT = "~/.kube/config"
_KINDS = (("clusters", "cluster"), ("contexts", "context"), ("users", "user"))
# Of each kind, what is a path, relative to the file in which it stands.
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_CHOOSE = "set KUBECONFIG or --context; `kubectl config get-contexts` lists what there is"
_MAX_BYTES = 16 << 20
_NO_MAPPING = "it is no mapping with clusters, contexts and users"


class Access(NamedTuple):
    """How to reach a cluster.

    Attributes:
        config: Cluster, user and namespace; of a user with a plugin, what the plugin answered.
        plugin: What to ask for another token, if there is such a thing.
        proxy: Address of the proxy on the way; None for that of the environment.
        server_name: Name in the server's certificate, where it is not that of the address.
    """

    config: SingleConfig
    plugin: Plugin | None = None
    proxy: str | None = None
    server_name: str | None = None


def read_kubeconfig(context: str | None) -> Access:
    """Return the cluster and the credentials of a context; a credential plugin has been run.

    Args:
        context: Its name; None for the current one, or the service account inside a cluster.

    Raises:
        InputError: There is no kubeconfig, it is not one, it contradicts itself, it names a pipe where a file is read,
            or its plugin does not log in.
    """
    from lightkube.config.kubeconfig import KubeConfig  # noqa: PLC0415 - heavy, and only needed for live evidence
    from lightkube.config.models import User  # noqa: PLC0415
    from lightkube.core.exceptions import ConfigError  # noqa: PLC0415

    raw, where = _load()
    try:
        config = KubeConfig.from_service_account(where) if raw is None else KubeConfig.from_dict(raw, fname=where)
        _refuse_loose_ends(config, context, where)
        single = config.get(context)
    except (ConfigError, KeyError, AttributeError, TypeError, ValueError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise _unusable(where, problem) from error
    assert single is not None  # only with a default, which is not given
    _refuse_special_files(single.cluster, single.user)
    cluster = _entry(raw, "clusters", single.context.cluster)
    access = Access(single, proxy=cluster.get("proxy-url") or None, server_name=cluster.get("tls-server-name") or None)
    if single.user is None:
        return access._replace(config=single._replace(user=User()))
    return _logged_in(access, raw) if single.user.exec else access


def _logged_in(access: Access, raw: dict[str, Any] | None) -> Access:
    """Run the credential plugin of the user."""
    import msgspec  # noqa: PLC0415 - see above

    from firstfault.collect.login import Plugin, exec_cluster  # noqa: PLC0415

    context = access.config.context
    try:
        plugin = msgspec.convert(_entry(raw, "users", context.user or "")["exec"], Plugin)
    except msgspec.ValidationError as error:
        raise _unusable(str(access.config.fname), f"the `exec` of its user {context.user!r}: {error}") from error
    if plugin.provide_cluster_info:
        plugin.cluster = exec_cluster(_entry(raw, "clusters", context.cluster))
    return access._replace(config=access.config._replace(user=plugin.log_in()), plugin=plugin)


def _entry(raw: dict[str, Any] | None, kind: str, name: str) -> dict[str, Any]:
    """Return an entry of the files as it stands there; an empty one where there are no files."""
    key = dict(_KINDS)[kind]
    return next((each[key] for each in (raw or {}).get(kind, []) if each["name"] == name), {})


def _load() -> tuple[dict[str, Any] | None, str]:
    """Return the files as one, and where they were read; None for the service account of a Pod."""
    from lightkube.config.kubeconfig import SERVICE_ACCOUNT  # noqa: PLC0415 - see above

    named = [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name] or [DEFAULT]
    files = {name: Path(name).expanduser() for name in named}  # each once
    there = {name: path for name, path in files.items() if path.exists()}
    if not there:
        if Path(SERVICE_ACCOUNT, "token").exists():
            return None, SERVICE_ACCOUNT
        raise _unusable(", ".join(named), "there is no such file")
    # As kubectl has it: files that are not there are passed over, and of what several define, the first counts.
    merged: dict[str, Any] = {kind: [] for kind, _ in _KINDS}
    for name, path in there.items():
        _add(merged, _parse(name, path), path.absolute().parent)
    where = ", ".join(there)
    if not merged["contexts"]:
        raise _unusable(where, f"{_NO_MAPPING}: there is no context in it")
    return merged, where


def _parse(name: str, path: Path) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - heavy, and only needed for live evidence

    try:
        content = yaml.safe_load(read_whole(path, _MAX_BYTES).decode())
    except yaml.YAMLError as error:
        raise _unusable(name, f"it is no YAML: {yaml_problem(error)}") from error
    except InputError as error:
        raise _unusable(name, error.what) from error
    except (ValueError, RecursionError) as error:
        raise _unusable(name, str(error)) from error
    lists = [content.get(kind) or [] for kind, _ in _KINDS] if isinstance(content, dict) else [None]
    if content is None:  # an empty file
        return {}
    whole = all(isinstance(each, list) and all(map(_is_entry, each)) for each in lists)
    if not whole:
        raise _unusable(name, _NO_MAPPING)
    return dict(content)


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("name"), str)
        and all(isinstance(entry.get(key) or {}, dict) for _, key in _KINDS)
    )


def _add(merged: dict[str, Any], content: dict[str, Any], folder: Path) -> None:
    """Add what a file defines and none before it did."""
    if content.get("current-context") and not merged.get("current-context"):
        merged["current-context"] = content["current-context"]
    for kind, key in _KINDS:
        known = {each["name"] for each in merged[kind]}
        for each in content.get(kind) or []:
            if each["name"] not in known:
                known.add(each["name"])
                merged[kind].append({"name": each["name"], key: _absolute(each.get(key) or {}, folder)})


def _absolute(body: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Resolve the paths of an entry; of a plugin's command only one that is no bare name, which is sought in PATH.

    Where the content itself stands beside its path, it counts and the path does not.
    """
    found = {key: value for key, value in body.items() if not (key in _PATHS and body.get(f"{key}-data"))}
    for key in _PATHS:
        if isinstance(found.get(key), str) and found[key]:
            found[key] = str(folder / found[key])
    plugin = found.get("exec")
    if isinstance(plugin, dict) and isinstance(plugin.get("command"), str) and os.sep in plugin["command"]:
        found["exec"] = plugin | {"command": str(folder / plugin["command"])}
    return found


def _refuse_special_files(cluster: Cluster, user: User | None) -> None:
    """Refuse a pipe where the TLS library or the client would open a file: it would wait for a writer for ever.

    Raises:
        InputError: Names the file and what names it.
    """
    named = [("certificate-authority", cluster.certificate_auth)]
    if user is not None:
        named += [("client-certificate", user.client_cert), ("client-key", user.client_key)]
        named += [("tokenFile", user.token_file)]
    for key, name in named:
        if name:
            refuse_special(Path(name), f"the {key} of the kubeconfig")
    if os.environ.get("SSL_CERT_FILE"):
        refuse_special(Path(os.environ["SSL_CERT_FILE"]), "the SSL_CERT_FILE of the environment")


def _unusable(where: str, problem: str) -> InputError:
    return InputError(f"no usable Kubernetes configuration in {where}: {problem}", _CHOOSE)


def _refuse_loose_ends(config: KubeConfig, context: str | None, where: str) -> None:
    """Refuse a context whose cluster or user no file defines.

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
                "which is not defined there",
                "write the entry anew (on EKS: `aws eks update-kubeconfig --name CLUSTER`), or use another --context",
            )
