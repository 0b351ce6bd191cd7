"""A Kubernetes client that can only read: GET, nothing else, each call bounded in time and size.

lightkube finds the configuration and does the authentication. Its typed calls are not used, because they drop fields
that they do not know and cannot ask for the log of a previous container; the evidence is what the API server said.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from firstfault.collect.kubeconfig import read_kubeconfig
from firstfault.collect.names import check_namespace
from firstfault.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KubeError", "KubeReader"]

TIMEOUT_S = 10.0
PAGE = 500
MAX_PAGES = 40
RETRIES_WHEN_THROTTLED = 2
MAX_RETRY_AFTER_S = 5.0
LOG_LIMIT_BYTES = 64 << 20


class KubeError(InputError):
    """One call to the API server failed; `status` is its HTTP status, or 0 when no answer came."""

    def __init__(self, what: str, todo: str = "", status: int = 0) -> None:
        super().__init__(what, todo)
        self.status = status


class KubeReader:
    """Reads from one cluster. Use it as a context manager.

    Args:
        context: Context of the kubeconfig; None for the current one (or the in-cluster service account).

    Raises:
        UnsupportedError: The extra `live` is not installed.
        InputError: No usable configuration.
    """

    def __init__(self, context: str | None = None) -> None:
        try:
            import httpx2  # noqa: PLC0415 - heavy, and only needed for live evidence
            from lightkube.config.client_adapter import Client, ConnectionParams  # noqa: PLC0415
            from lightkube.core.exceptions import ConfigError  # noqa: PLC0415
        except ImportError as error:
            raise UnsupportedError(
                f"reading a live cluster needs the extra `live` ({error})", "pip install 'firstfault[live]'"
            ) from error
        self._transport_error = (httpx2.HTTPError, httpx2.InvalidURL, ConfigError)
        access = read_kubeconfig(context)
        config = access.config
        self.namespace: str = config.namespace
        check_namespace(self.namespace, f"context {config.context_name!r}: namespace")
        try:
            self._http = Client(config, ConnectionParams(timeout=httpx2.Timeout(TIMEOUT_S), proxy=access.proxy))
        except (ConfigError, httpx2.InvalidURL, OSError, ValueError) as error:
            raise InputError(
                f"no usable Kubernetes configuration: context {config.context_name!r}, server "
                f"{config.cluster.server}: {error}",
                "mend its address, certificates or credentials; `kubectl config view` shows the entry",
            ) from error
        if access.plugin is not None and config.user is not None and config.user.token:
            from firstfault.collect.login import PluginAuth  # noqa: PLC0415 - see above

            self._http.auth = PluginAuth(access.plugin, config.user.token)
        if access.server_name:
            name = {"sni_hostname": access.server_name}
            self._http.event_hooks = {"request": [lambda request: request.extensions.update(name)]}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.close()

    def _send(self, method: str, path: str, **arguments: Any) -> Any:
        """Return the answer to one request, whatever it says.

        Raises:
            KubeError: There is none, or the credential plugin gives no other token for one that has lapsed.
        """
        try:
            return self._http.request(method, path, **arguments)
        except InputError as error:
            raise KubeError(f"{method} {path}: {error.what}", error.todo, 401) from error
        except self._transport_error as error:
            what = f"{method} {path}: no answer from the API server: {error or type(error).__name__}"
            raise KubeError(what, "check the network path and the API server's endpoint") from error

    def _get(self, path: str, params: dict[str, Any]) -> Any:
        for attempt in range(RETRIES_WHEN_THROTTLED + 1):
            response = self._send("GET", path, params={key: value for key, value in params.items() if value})
            if response.status_code == 429 and attempt < RETRIES_WHEN_THROTTLED:
                wait = response.headers.get("Retry-After", "1")
                time.sleep(min(float(wait) if wait.isdigit() else 1.0, MAX_RETRY_AFTER_S))
                continue
            if response.status_code >= 400:
                raise self._refused(path, response)
            return response
        raise AssertionError("unreachable")

    @staticmethod
    def _refused(path: str, response: Any, method: str = "GET") -> KubeError:
        try:
            message = str(response.json().get("message") or response.reason_phrase)
        except (ValueError, AttributeError):
            message = response.reason_phrase or "no reason given"
        todo = {
            401: "the credentials have lapsed or are not known there: log in again",
            403: "ask for `get` and `list` on it (`firstfault collect --permissions` prints the role)",
            429: "the API server throttles: try again later",
        }.get(response.status_code, "")
        return KubeError(f"{method} {path}: {response.status_code} {message}", todo, response.status_code)

    def items(self, path: str, *, labels: str = "", fields: str = "") -> Iterator[dict[str, Any]]:
        """Yield the objects of a collection, page by page, as the API server wrote them.

        Args:
            path: Such as `/api/v1/namespaces/train/pods`.
            labels: Label selector.
            fields: Field selector.

        Raises:
            KubeError: Refused, throttled or unreachable.
        """
        params: dict[str, Any] = {"limit": PAGE, "labelSelector": labels, "fieldSelector": fields}
        for _ in range(MAX_PAGES):
            body = self._get(path, params).json()
            # Lists leave kind and apiVersion off their items; the reader of the bundle needs them.
            kind, version = str(body.get("kind", "")).removesuffix("List"), body.get("apiVersion", "v1")
            for item in body.get("items") or []:
                yield {"apiVersion": version, "kind": kind, **item}
            params["continue"] = (body.get("metadata") or {}).get("continue")
            if not params["continue"]:
                return

    def log(
        self, namespace: str, pod: str, container: str, *, previous: bool = False, timestamps: bool = True
    ) -> bytes:
        """Return the log of a container, at most its first 64 MiB.

        Args:
            namespace: Of the Pod.
            pod: Its name.
            container: One of its containers.
            previous: The log of the container's instance before the last restart.
            timestamps: With the container runtime's time before each line.

        Raises:
            KubeError: Refused or unreachable; status 400 when there is no such (previous) container.
        """
        params = {
            "container": container,
            "previous": "true" if previous else None,
            "timestamps": "true" if timestamps else None,
            "limitBytes": LOG_LIMIT_BYTES,
        }
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}/log"
        content: bytes = self._get(path, params).content
        return content
