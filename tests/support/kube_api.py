"""A Kubernetes API on loopback that speaks the real protocol over an in-memory store.

It stands where a cluster cannot run: lists with label and field selectors and pages, single objects, create, delete,
merge patch, Pod logs (previous too), and failures on demand (status, Retry-After, a connection that is cut).
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import yaml

LISTS = {
    "pods": "Pod", "nodes": "Node", "events": "Event", "services": "Service", "namespaces": "Namespace",
    "endpointslices": "EndpointSlice", "networkpolicies": "NetworkPolicy", "jobs": "Job", "daemonsets": "DaemonSet",
    "clusterpolicies": "ClusterPolicy", "persistentvolumeclaims": "PersistentVolumeClaim", "configmaps": "ConfigMap",
    "deployments": "Deployment", "nodeclaims": "NodeClaim", "validatingwebhookconfigurations":
    "ValidatingWebhookConfiguration", "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "cronjobs": "CronJob", "clusterroles": "ClusterRole", "clusterrolebindings": "ClusterRoleBinding",
    "roles": "Role", "rolebindings": "RoleBinding", "prometheusrules": "PrometheusRule",
    "ciliumnetworkpolicies": "CiliumNetworkPolicy", "statefulsets": "StatefulSet", "replicasets": "ReplicaSet",
}  # fmt: skip
GROUPS = {
    "endpointslices": "discovery.k8s.io", "networkpolicies": "networking.k8s.io", "jobs": "batch",
    "daemonsets": "apps", "deployments": "apps", "statefulsets": "apps", "replicasets": "apps",
    "clusterpolicies": "nvidia.com",
}  # fmt: skip


def matches(labels: dict[str, str], selector: str) -> bool:
    """Evaluate the equality and set-presence forms of a label selector."""
    for term in filter(None, selector.split(",")):
        if "!=" in term:
            key, value = term.split("!=")
            if labels.get(key) == value:
                return False
        elif "=" in term:
            key, value = term.replace("==", "=").split("=")
            if labels.get(key) != value:
                return False
        elif term.startswith("!"):
            if term[1:] in labels:
                return False
        elif term not in labels:
            return False
    return True


def field(obj: dict[str, Any], path: str) -> str:
    """Return a dotted field as the API compares it in field selectors."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


class KubeApi:
    """The store and its server; use as a context manager.

    Attributes:
        objects: (plural, namespace or "", name) -> object.
        logs: (namespace, pod, container, previous) -> text.
        requests: (method, path with query) of every request, in order.
        tokens: Bearer tokens that are let in; everybody is while it is empty.
        failures: list of [method prefix, path prefix, status, how many times, headers].
        on_create: Called with (plural, object) after a POST; tests let a controller act there.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.logs: dict[tuple[str, str, str, bool], str] = {}
        self.requests: list[tuple[str, str]] = []
        self.failures: list[list[Any]] = []
        self.tokens: set[str] = set()
        self.on_create = lambda plural, obj: None
        self.on_delete = lambda plural, obj: None
        self.lock = threading.RLock()
        self._version = 1

    def add(self, plural: str, obj: dict[str, Any]) -> dict[str, Any]:
        """Put an object into the store and give it the fields that the API server sets."""
        with self.lock:
            self._version += 1
            meta = obj.setdefault("metadata", {})
            meta.setdefault("uid", f"00000000-0000-0000-0000-{self._version:012d}")
            meta["resourceVersion"] = str(self._version)
            obj.setdefault("kind", LISTS.get(plural, plural))
            group = GROUPS.get(plural)
            obj.setdefault("apiVersion", f"{group}/v1" if group else "v1")
            self.objects[plural, meta.get("namespace", ""), meta["name"]] = obj
            return obj

    def fail(self, path: str, status: int, *, times: int = 10**9, method: str = "", **headers: str) -> None:
        """Answer requests whose path begins with `path` with `status`; 0 cuts the connection."""
        self.failures.append([method, path, status, times, headers])

    def __enter__(self) -> Self:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                api.handle(self, "GET")

            def do_POST(self) -> None:
                api.handle(self, "POST")

            def do_DELETE(self) -> None:
                api.handle(self, "DELETE")

            def do_PATCH(self) -> None:
                api.handle(self, "PATCH")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def kubeconfig(self, folder: Any, namespace: str = "default") -> str:
        """Write a kubeconfig for this server into `folder` and return its path."""
        path = folder / "kubeconfig"
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "mock",
            "clusters": [{"name": "mock", "cluster": {"server": self.url}}],
            "users": [{"name": "mock", "user": {}}],
            "contexts": [{"name": "mock", "context": {"cluster": "mock", "user": "mock", "namespace": namespace}}],
        }  # fmt: skip
        path.write_text(yaml.safe_dump(config))
        return str(path)

    # -- request handling

    def handle(self, request: BaseHTTPRequestHandler, method: str) -> None:
        parts = urlsplit(request.path)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        with self.lock:
            self.requests.append((method, request.path))
            if self.tokens and request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
                self.status(request, 401, "Unauthorized")
                return
            for failure in self.failures:
                wanted, prefix, status, times, headers = failure
                if times > 0 and method.startswith(wanted) and parts.path.startswith(prefix):
                    failure[3] -= 1
                    if status == 0:
                        request.close_connection = True
                        return
                    self.status(request, status, f"injected failure for {parts.path}", headers)
                    return
            self.route(request, method, parts.path, query, json.loads(body) if body else None)

    def discover(self, request, words: list[str]) -> None:
        """Answer the discovery calls with which kubectl learns what kinds exist."""
        groups = {"apps": "v1", "batch": "v1", "discovery.k8s.io": "v1", "networking.k8s.io": "v1", "nvidia.com": "v1"}
        if words == ["api"]:
            self.send(request, 200, {"kind": "APIVersions", "versions": ["v1"]})
        elif words == ["apis"]:
            listed = [
                {"name": group, "versions": [version], "preferredVersion": version}
                for group, version in (
                    (name, {"groupVersion": f"{name}/{v}", "version": v}) for name, v in groups.items()
                )
            ]
            self.send(request, 200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})
        else:
            group = "" if words[0] == "api" else words[1]
            resources = [
                {
                    "name": plural, "singularName": kind.lower(), "kind": kind, "verbs": ["get", "list"],
                    "namespaced": plural not in ("nodes", "namespaces", "clusterpolicies"),
                }
                for plural, kind in LISTS.items()
                if GROUPS.get(plural, "") == group
            ]  # fmt: skip
            version = "/".join(words[1:])
            body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources}
            self.send(request, 200, body)

    def route(self, request, method, path, query, body) -> None:
        words = [word for word in path.split("/") if word]
        if words[:1] not in (["api"], ["apis"]):
            self.status(request, 404, "the server could not find the requested resource")
            return
        if len(words) <= (2 if words[:1] == ["api"] else 3):
            self.discover(request, words)
            return
        rest = words[2:] if words[0] == "api" else words[3:]
        namespace = ""
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural = rest[0]
        if plural not in LISTS:
            self.status(request, 404, "the server could not find the requested resource")
        elif len(rest) == 1 and method == "GET":
            self.list(request, plural, namespace, query)
        elif len(rest) == 1 and method == "POST":
            body.setdefault("metadata", {}).setdefault("namespace", namespace)
            if (plural, namespace, body["metadata"]["name"]) in self.objects:
                self.status(request, 409, f"{plural} {body['metadata']['name']!r} already exists")
                return
            self.add(plural, body)
            self.on_create(plural, body)
            self.send(request, 201, body)
        elif rest[2:] == ["log"]:
            self.log(request, namespace, rest[1], query)
        else:
            self.single(request, method, plural, namespace, rest[1], body)

    def single(self, request, method, plural, namespace, name, body) -> None:
        obj = self.objects.get((plural, namespace, name))
        if obj is None:
            self.status(request, 404, f'{plural} "{name}" not found')
        elif method == "DELETE":
            del self.objects[plural, namespace, name]
            self.on_delete(plural, obj)
            self.send(request, 200, obj)
        elif method == "PATCH":
            merge(obj, body)
            self.send(request, 200, self.add(plural, obj))
        else:
            self.send(request, 200, obj)

    def list(self, request, plural, namespace, query) -> None:
        items = [
            obj
            for (kind, ns, _), obj in sorted(self.objects.items())
            if kind == plural
            and (not namespace or ns == namespace)
            and matches(obj["metadata"].get("labels", {}), query.get("labelSelector", ""))
            and all(
                field(obj, term.split("=")[0]) == term.split("=")[-1]
                for term in filter(None, query.get("fieldSelector", "").split(","))
            )
        ]
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or 0)
        metadata: dict[str, Any] = {"resourceVersion": str(self._version)}
        page = items[start : start + limit] if limit else items
        if limit and start + limit < len(items):
            metadata["continue"] = str(start + limit)
        api_version = f"{GROUPS[plural]}/v1" if plural in GROUPS else "v1"
        self.send(
            request,
            200,
            {"kind": f"{LISTS[plural]}List", "apiVersion": api_version, "metadata": metadata, "items": page},
        )

    def log(self, request, namespace, pod, query) -> None:
        obj = self.objects.get(("pods", namespace, pod))
        if obj is None:
            self.status(request, 404, f'pods "{pod}" not found')
            return
        container = query.get("container") or obj["spec"]["containers"][0]["name"]
        text = self.logs.get((namespace, pod, container, query.get("previous") == "true"))
        if text is None:
            what = "previous terminated container" if query.get("previous") == "true" else "container"
            self.status(request, 400, f'{what} "{container}" in pod "{pod}" not found')
            return
        self.send(request, 200, text.encode(), "text/plain")

    def status(self, request, code: int, message: str, headers: dict[str, str] | None = None) -> None:
        reason = {403: "Forbidden", 404: "NotFound", 401: "Unauthorized", 429: "TooManyRequests"}.get(code, "")
        body = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
        self.send(request, code, body, headers=headers)

    @staticmethod
    def send(request, code: int, body: Any, content_type: str = "application/json", headers=None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request.send_response(code)
        request.send_header("Content-Type", content_type)
        request.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(data)


def merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """JSON merge patch (RFC 7386)."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = value
