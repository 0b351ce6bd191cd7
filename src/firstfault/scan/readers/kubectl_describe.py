"""Understands `kubectl describe` line by line: states of containers, conditions, events, what a node offers."""

from __future__ import annotations

import re

__all__ = ["DescribeParser"]

GPU = "nvidia.com/gpu"
RESOURCE_NAMES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
RESOURCE_PREFIXES = ("nvidia.com/", "vpc.amazonaws.com/efa", "amd.com/")
ENV_NAME = re.compile(
    r"(?:NCCL|FI|TORCH|MASTER|VLLM|GLOO|UCX|CUDA|NVIDIA|PET)_\w+|WORLD_SIZE|RANK|LOCAL_RANK|NODE_RANK"
)
_PARTS = {"Device Plugin": "devicePlugin", "Dcgm Exporter": "dcgmExporter", "Driver": "driver", "Toolkit": "toolkit"}
_TOP = re.compile(r"^([A-Z][\w /()-]{0,40}):(?: +(.*))?$")
_FIELD = re.compile(r"^( +)([\w./ -]{1,80}?):(?: +(.*))?$")
_EVENT = re.compile(r"^ +(Normal|Warning) {2,}(\S+) {2,}(\S+(?: \([^)]*\))?) {2,}(\S+(?:, \S+)*) {2,}(.*)$")


class DescribeParser:
    """Keeps the object and section that a line belongs to."""

    def __init__(self) -> None:
        self._reset("-")

    def _reset(self, name: str) -> None:
        self._name = name
        self._namespace = ""
        self._kind = ""
        self._section = ""
        self._table: list[str] = []
        self._container = ""
        self._state: dict[str, str] = {}
        self._states: list[dict[str, str]] = []
        self._in_env = False
        self._resources: dict[str, dict[str, str]] = {}
        self._gpu_present = "unset"
        self._reason = self._phase = self._message = ""
        self._part = ""
        self._policy: dict[str, str] = {}

    def line(self, text: str) -> list[str] | None:
        """Return the facts that stand in place of a line; None if the line is handed on as it is."""
        top = _TOP.match(text)
        if top is not None:
            return self._top(text, top[1], top[2] or "")
        if not text.startswith(" ") or not self._section:
            return None
        return self._SECTIONS.get(self._section, DescribeParser._ignore)(self, text)

    def finish(self) -> list[str]:
        """Return what is left to say when the object is over."""
        return [*self._flush_container(), *self._flush_node(), *self._flush_pod(), *self._flush_policy()]

    def _flush_policy(self) -> list[str]:
        """Return what a ClusterPolicy says, once its lines are over."""
        if self._kind != "ClusterPolicy" or not self._policy:
            return []
        parts = " ".join(
            f"{part}.enabled={self._policy.get(part, '')}" for part in ("devicePlugin", "driver", "toolkit")
        )
        fact = f"clusterpolicy {self._name} state={self._policy.get('state', '')} {parts}"
        off = ["values dcgmExporter.enabled=false"] if self._policy.get("dcgmExporter") == "false" else []
        self._policy = {}
        return [fact, *off]

    def _spec(self, text: str) -> list[str] | None:
        """Take a line of Spec: which part of the operator it is about, and whether that is enabled."""
        field = _FIELD.match(text)
        if field is not None and len(field[1]) == 2:
            self._part = _PARTS.get(field[2], "")
        elif field is not None and field[2] == "Enabled" and self._part and len(field[1]) == 4:
            self._policy[self._part] = field[3] or ""
        return None

    def _status(self, text: str) -> list[str] | None:
        field = _FIELD.match(text)
        if field is not None and field[2] == "State" and self._kind == "ClusterPolicy":
            self._policy["state"] = field[3] or ""
        return None

    def _flush_node(self) -> list[str]:
        """Return what a node offers, once its tables are over."""
        facts: list[str] = []
        if self._resources:
            allocatable, capacity = self._resources.get("Allocatable", {}), self._resources.get("Capacity", {})
            facts.append(
                f"node {self._name} allocatable {GPU}={allocatable.get(GPU, 'none')} "
                f"capacity {GPU}={capacity.get(GPU, 'none')} gpu.present={self._gpu_present}"
            )
            facts.extend(
                f"node {self._name} resource {key} allocatable={allocatable.get(key, 'none')} "
                f"capacity={capacity.get(key, 'none')}"
                for key in sorted({*allocatable, *capacity})
                if key != GPU and (key in RESOURCE_NAMES or key.startswith(RESOURCE_PREFIXES))
            )
        self._resources = {}
        return facts

    def _flush_pod(self) -> list[str]:
        """Return the status of a Pod, once its lines are over."""
        if not self._phase or self._kind == "Node":
            return []
        fact = f"pod {self._subject()} phase={self._phase} reason={self._reason} message={self._message}"
        self._phase = self._reason = self._message = ""
        return [fact]

    def _subject(self) -> str:
        return f"{self._namespace or '-'}/{self._name}"

    def _top(self, text: str, key: str, value: str) -> list[str] | None:
        """Take a line without indentation: a field of the object, or the heading of a section."""
        if key == "Name" and value:
            facts = self.finish()
            self._reset(value)
            return [*facts, text]
        facts = self._flush_container()
        if key not in {"Status", "Reason", "Message"}:
            facts.extend(self._flush_pod())
        if key not in {"Capacity", "Allocatable"}:
            facts.extend(self._flush_node())
        self._section, self._table = key, []
        self._learn(key, value)
        if key == "Taints":
            facts.extend(self._taint(value))
        elif key == "Unschedulable" and value == "true":
            facts.append(f"node {self._name} unschedulable=true")
        return [*facts, text]

    def _learn(self, key: str, value: str) -> None:
        """Keep what a field says about the object as a whole."""
        if key == "Kind":
            self._kind = value
        elif key in {"Containers", "Init Containers"} or (key == "Node" and "/" in value):
            self._kind = "Pod"
        elif key in {"Roles", "Capacity", "Unschedulable", "PodCIDR", "Addresses"}:
            self._kind = "Node"
        elif key == "Status" and value:
            self._phase = value.split(" ", 1)[0]
        elif key == "Labels":
            self._labels(value)
        elif key in {"Namespace", "Reason", "Message"}:
            setattr(self, f"_{key.lower()}", value)

    def _ignore(self, text: str) -> list[str] | None:
        del text
        return None

    def _labels(self, text: str) -> list[str] | None:
        key, _, value = text.strip().partition("=")
        if key == "nvidia.com/gpu.present":
            self._gpu_present = value
        return None

    def _taint(self, text: str) -> list[str]:
        pair, _, effect = text.strip().rpartition(":")
        key, _, value = pair.partition("=")
        return [f"taint node/{self._name} {key}={value}:{effect}"] if key and " " not in effect else []

    def _taints(self, text: str) -> list[str] | None:
        return [text, *self._taint(text)]

    def _resource(self, text: str) -> list[str] | None:
        if (field := _FIELD.match(text)) is not None:
            self._resources.setdefault(self._section, {})[field[2]] = field[3] or ""
        return None

    def _condition(self, text: str) -> list[str] | None:
        cells = re.split(r" {2,}", text.strip())
        if cells[0] == "Type" or cells[0].startswith("---"):
            self._table = cells if cells[0] == "Type" else self._table
            return None
        if len(cells) == 1:
            cells = cells[0].rsplit(" ", 1)
        if len(cells) < 2 or cells[1] not in {"True", "False", "Unknown"}:
            return None
        place = {name: index for index, name in enumerate(self._table)}
        if "Message" in place:
            cells = re.split(r" {2,}", text.strip(), maxsplit=len(self._table) - 1)
        reason, message = (
            cells[place[key]] if place.get(key, 99) < len(cells) else "" for key in ("Reason", "Message")
        )
        subject = (
            f"node/{self._name}" if self._kind == "Node" or "LastHeartbeatTime" in place else f"pod/{self._subject()}"
        )
        return [f"condition {subject} {cells[0]}={cells[1]} reason={reason} message={message}"]

    def _event(self, text: str) -> list[str] | None:
        event = _EVENT.match(text)
        if event is None:
            return None
        namespace = "-" if self._kind == "Node" else self._namespace or "-"
        return [f"event {event[1]} {event[2]} {self._kind or '-'}/{namespace}/{self._name}: {event[5]}"]

    def _containers(self, text: str) -> list[str] | None:
        """Take a line of the section of containers, which is a tree by indentation."""
        field = _FIELD.match(text)
        if field is None:
            return None
        indent, key, value = len(field[1]), field[2], field[3] or ""
        facts: list[str] = []
        if indent == 2 and not value:
            facts = self._flush_container()
            self._container = key
        elif indent == 4:
            self._in_env = key == "Environment"
            if key in {"State", "Last State"}:
                self._state = {"key": key, "state": value}
                self._states.append(self._state)
            elif key == "Restart Count":
                for state in self._states:
                    state["restarts"] = value
        elif self._in_env and ENV_NAME.fullmatch(key):
            return [text, f"env {self._subject()}/{self._container} {key}={value}"]
        elif key in {"Reason", "Exit Code", "Signal", "Message"} and self._state:
            self._state[key] = value
        return [*facts, text]

    def _flush_container(self) -> list[str]:
        """Return the states of the container that is over."""
        facts = []
        for state in self._states:
            name = state["state"].lower()
            if name in {"waiting", "running", "terminated"} and (state["key"] == "State" or name == "terminated"):
                facts.append(
                    f"container {self._subject()}/{self._container} "
                    f"{'last-terminated' if state['key'] == 'Last State' else name} reason={state.get('Reason', '')} "
                    f"exitCode={state.get('Exit Code', '')} signal={state.get('Signal', '')} "
                    f"restarts={state.get('restarts', '')} message={state.get('Message', '')}"
                )
        self._states, self._state, self._container, self._in_env = [], {}, "", False
        return facts

    _SECTIONS = {  # noqa: RUF012 - a constant table
        "Spec": _spec,
        "Status": _status,
        "Labels": _labels,
        "Taints": _taints,
        "Capacity": _resource,
        "Allocatable": _resource,
        "Conditions": _condition,
        "Events": _event,
        "Containers": _containers,
        "Init Containers": _containers,
    }
