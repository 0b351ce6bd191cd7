"""One node, one scheduler and one kubelet, as small as can be, behind an API that speaks as the real one does.

The objects have the fields that the real components write, and the states come about as there: the scheduler refuses a
node by what the node offers and the Pod asks for; the kubelet runs the command as a real process and reports
its exit code, restarts and log. Nothing of it is a cluster: no watch, no admission, no authentication; loopback only.
Message texts: kubernetes/pkg/scheduler/framework/types.go, pkg/kubelet/kuberuntime.
"""

from __future__ import annotations

import json
import subprocess
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MiniCluster", "healthy_node"]

NAMESPACE = "training"
_RESTARTS = 3
_UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
_NODE = "ip-10-0-1-17.ec2.internal"


def healthy_node() -> dict[str, Any]:
    """Return a GPU node of an EKS cluster on which all is well."""
    room = {"cpu": "4", "memory": "15Gi", "ephemeral-storage": "100Gi", "nvidia.com/gpu": "1", "pods": "29"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": _NODE,
            "labels": {"nvidia.com/gpu.present": "true", "node.kubernetes.io/instance-type": "g5.xlarge"},
        },
        "spec": {"taints": []},
        "status": {
            "capacity": dict(room),
            "allocatable": dict(room),
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is ready"}
            ],
            "nodeInfo": {"kubeletVersion": "v1.31.2-eks-94953ac", "osImage": "Amazon Linux 2023"},
        },
    }


def amount(text: str) -> float:
    """Return a Kubernetes quantity as a number: "15Gi", "500m", "1"."""
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float(text.removesuffix("m")) / 1000 if text.endswith("m") else float(text)


class MiniCluster:
    """The cluster; a context manager that serves its API.

    Args:
        node: Its only node, as `healthy_node` returns it or changed.
        pod: The Pod to run: name, container `command`, `limits`, `restartPolicy`.
    """

    def __init__(self, node: dict[str, Any], pod: Mapping[str, Any]) -> None:
        self.node = node
        self.pod = _pod(pod)
        self.events: list[dict[str, Any]] = []
        self.logs: list[bytes] = []
        cluster = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                cluster.answer(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self) -> dict[str, Any]:
        """Return a configuration that leads to this cluster."""
        port = self._server.server_address[1]
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "drill",
            "clusters": [{"name": "drill", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "drill", "user": {}}],
            "contexts": [{"name": "drill", "context": {"cluster": "drill", "user": "drill", "namespace": NAMESPACE}}],
        }

    # -- scheduler and kubelet -------------------------------------------------------------------------------------

    def run(self) -> str:
        """Schedule the Pod and run it to its end, or to its back-off; return its phase."""
        if reasons := self._unfit():
            self._unschedulable(reasons)
        else:
            self.pod["spec"]["nodeName"] = _NODE
            self._condition("PodScheduled", "True")
            self._event("Normal", "Scheduled", f"Successfully assigned {NAMESPACE}/{self._name} to {_NODE}")
            self._run_container()
        return str(self.pod["status"]["phase"])

    def _unfit(self) -> list[str]:
        reasons = [
            f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
            for taint in self.node["spec"]["taints"]
        ]
        requests = self.pod["spec"]["containers"][0]["resources"]["requests"]
        offered = self.node["status"]["allocatable"]
        short = [name for name, asked in requests.items() if amount(offered.get(name, "0")) < amount(asked)]
        return reasons or [f"Insufficient {name}" for name in short]

    def _unschedulable(self, reasons: list[str]) -> None:
        why = ", ".join(f"1 {reason}" for reason in reasons)
        message = (
            f"0/1 nodes are available: {why}. preemption: 0/1 nodes are available: "
            "1 Preemption is not helpful for scheduling."
        )
        self._condition("PodScheduled", "False", reason="Unschedulable", message=message)
        self._event("Warning", "FailedScheduling", message)

    def _run_container(self) -> None:
        restarts = -1
        always = self.pod["spec"]["restartPolicy"] == "Always"
        while restarts < (_RESTARTS if always else 0):
            restarts += 1
            command = self.pod["spec"]["containers"][0]["command"]
            ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.logs.append(ended.stdout)
            self._event("Normal", "Started", "Started container trainer")
            if ended.returncode == 0:
                break
        code = ended.returncode if ended.returncode >= 0 else 128 - ended.returncode
        terminated = {
            "terminated": {
                "exitCode": code,
                "reason": "Completed" if code == 0 else "Error",
                "startedAt": _now(),
                "finishedAt": _now(),
                "containerID": "containerd://0a1b2c",
            }
        }
        status = {"name": "trainer", "restartCount": restarts, "ready": False, "state": terminated, "lastState": {}}
        phase = "Succeeded" if code == 0 else "Failed"
        if code and always:
            wait = f"back-off 40s restarting failed container=trainer pod={self._name}_{NAMESPACE}(0f1e2d3c)"
            status |= {
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": wait}},
                "lastState": terminated,
            }
            self._event("Warning", "BackOff", f"Back-off restarting failed container trainer in pod {self._name}")
            phase = "Running"
        self.pod["status"] |= {"phase": phase, "containerStatuses": [status]}

    @property
    def _name(self) -> str:
        return str(self.pod["metadata"]["name"])

    def _condition(self, kind: str, status: str, **fields: str) -> None:
        self.pod["status"].setdefault("conditions", []).append(
            {"type": kind, "status": status, "lastTransitionTime": _now(), **fields}
        )

    def _event(self, kind: str, reason: str, message: str) -> None:
        number = len(self.events)
        self.events.append(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{self._name}.{number}", "namespace": NAMESPACE},
                "type": kind,
                "reason": reason,
                "message": message,
                "count": 1,
                "firstTimestamp": _now(),
                "lastTimestamp": _now(),
                "involvedObject": {"kind": "Pod", "name": self._name, "namespace": NAMESPACE},
                "source": {"component": "default-scheduler" if reason == "FailedScheduling" else "kubelet"},
            }
        )

    # -- API -------------------------------------------------------------------------------------------------------

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one GET: lists of Pods, events and nodes, a container's log; other kinds have no objects here."""
        parts = urlsplit(request.path)
        last = parts.path.rstrip("/").rpartition("/")[2]
        if last == "log":
            previous = parse_qs(parts.query).get("previous") == ["true"]
            place = len(self.logs) - (2 if previous else 1)
            if place < 0:
                _send(
                    request, 400, {"kind": "Status", "status": "Failure", "code": 400, "message": "no such container"}
                )
                return
            _send(request, 200, self.logs[place])
            return
        items = {"pods": [self.pod], "events": self.events, "nodes": [self.node]}.get(last, [])
        _send(request, 200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})


def _pod(wanted: Mapping[str, Any]) -> dict[str, Any]:
    limits = dict(wanted["limits"])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": wanted["name"], "namespace": NAMESPACE, "creationTimestamp": _now()},
        "spec": {
            "restartPolicy": wanted.get("restartPolicy", "Always"),
            "containers": [
                {
                    "name": "trainer",
                    "image": "trainer:1",
                    "command": list(wanted["command"]),
                    "resources": {"limits": limits, "requests": limits},
                }
            ],
        },
        "status": {"phase": "Pending"},
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _send(request: BaseHTTPRequestHandler, code: int, body: dict[str, Any] | bytes) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request.send_response(code)
    request.send_header("Content-Type", "text/plain" if isinstance(body, bytes) else "application/json")
    request.send_header("Content-Length", str(len(data)))
    request.end_headers()
    request.wfile.write(data)
