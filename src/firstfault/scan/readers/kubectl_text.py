"""What kubectl prints for people: `describe`, `get events`, tables of Pods, nodes and DaemonSets.

Rows that are understood become facts in place of the row; every other line is handed on as it is. Text pasted without
its header still yields what its rows say on their own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from firstfault.model import TextLine
from firstfault.scan.readers.base import BEGINNING, HEAD_IS_ALL, iter_lines
from firstfault.scan.readers.facts import subject_of
from firstfault.scan.readers.kubectl_describe import DescribeParser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from firstfault.scan.readers.joint import JointAnalysis

__all__ = ["DESCRIBE", "EVENTS", "TABLE", "KubectlTextReader"]

DESCRIBE_HEAD = re.compile(
    rb"(?m)\A(?:[^\n]{0,300}\n){0,6}?(?:Name: {2,}\S|Events:\s*$)|^  Type +Reason +Age +From +Message"
    rb"|^(?:Capacity|Allocatable):[ \t]*\r?\n(?:  [^\n]*\n){0,20}?  nvidia\.com/gpu: "
)
EVENTS_HEAD = re.compile(rb"(?m)^(?:NAMESPACE +)?LAST SEEN +TYPE +REASON +")
TABLE_HEAD = re.compile(
    rb"(?m)^(?:NAMESPACE +)?NAME +(?:READY +STATUS +RESTARTS|STATUS +ROLES|DESIRED +CURRENT +READY|READY +UP-TO-DATE"
    rb"|STATUS +AGE\s*$|SCHEDULE +)"
    rb"|^(?:NAME|NODE) +(?:[^\n]* )?(?:GPUS?|ALLOCATABLE|nvidia\.com/gpu)(?: |\s*$)"
    rb"|\A\S+ +(?:\S+ +)?\d+/\d+ +(?:[A-Z]\w+(?::\S+)?) +\d+(?: \([^)\n]+\))? +\d+[dhms]"
)

_EVENT_KINDS = {
    "pod": "Pod", "node": "Node", "job": "Job", "deployment": "Deployment", "replicaset": "ReplicaSet",
    "daemonset": "DaemonSet", "statefulset": "StatefulSet", "service": "Service", "cronjob": "CronJob",
    "persistentvolumeclaim": "PersistentVolumeClaim", "nodeclaim": "NodeClaim", "nodepool": "NodePool",
}  # fmt: skip
_POD_ROW = re.compile(
    r"^(?:(?P<namespace>[a-z0-9][\w.-]*) +)?(?P<name>[a-z0-9][\w.-]*) +(?P<ready>\d+/\d+)"
    r" +(?P<status>[A-Z][\w-]*(?::\S+)?) +(?P<restarts>\d+)(?: \([^)]+\))? +(?P<age>\d\w*)(?: +(?:\S+) +(?P<node>\S+))?"
)
_PHASES = {
    "Running": "Running", "Pending": "Pending", "Completed": "Succeeded", "Succeeded": "Succeeded", "Failed": "Failed",
    "Error": "Failed", "Evicted": "Failed", "OOMKilled": "Failed", "ContainerCreating": "Pending", "Unknown": "Unknown",
    "ContainerStatusUnknown": "Failed", "PodInitializing": "Pending", "DeadlineExceeded": "Failed",
    "UnexpectedAdmissionError": "Failed", "NodeLost": "Unknown", "ContainerCannotRun": "Failed",
}  # fmt: skip


_GPU_COLUMNS = ("GPU", "GPUS", "GPU_ALLOCATABLE", "ALLOCATABLE", "ALLOCATABLE_GPU", "nvidia.com/gpu")


class KubectlTextReader:
    """Reads any of the texts; the kind only says which one was seen first.

    Args:
        kind: Name for the report.
        head: What the head must hold.
    """

    def __init__(self, kind: str, head: re.Pattern[bytes]) -> None:
        self.kind = kind
        self._head = head

    def detect(self, head: bytes) -> bool:
        """Say whether the head is of this kind."""
        return self._head.search(head if len(head) < HEAD_IS_ALL else head[:BEGINNING]) is not None

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield lines and facts."""
        del source_name, joint
        describe, table = DescribeParser(), _TableParser()
        for number, offset, data in iter_lines(stream):
            text = data.decode("utf-8", "replace").rstrip()
            facts = table.line(text)
            if facts is None:
                facts = describe.line(text)
            for fact in (text,) if facts is None else facts:
                if fact.strip():
                    yield TextLine(text=fact, line=number, offset=offset, stream=subject_of(fact))
        for fact in describe.finish():
            yield TextLine(text=fact)


class _TableParser:
    """Understands rows of tables by the header above them."""

    def __init__(self) -> None:
        self._columns: list[tuple[str, int]] = []

    def line(self, text: str) -> list[str] | None:
        """Return the facts of a line; None if it is no row of a table."""
        if re.match(r"(?:NAMESPACE +)?(?:NAME|LAST SEEN) |NODE +.*(?:GPU|nvidia)", text):
            self._columns = [(match[0], match.start()) for match in re.finditer(r"\S+(?: \S+)*", text)]
            return [text]
        if not text:
            self._columns = []
            return None
        if not text[0].isspace() and self._columns:
            names = {name for name, _ in self._columns}
            reader = next((read for needs, read in _ROWS if needs <= names), None)
            if names == {"NAME", "STATUS", "AGE"}:
                reader = _policy_row
            if reader is not None:
                return reader(self._row(text))
        return _pod_row(text)

    def _row(self, text: str) -> dict[str, str]:
        """Return the cells of a row by column: cut at the header's positions if the row keeps them, else at gaps."""
        starts = [start for _, start in self._columns]
        if all(start == 0 or text[start - 1 : start] in {" ", ""} for start in starts):
            cells = [text[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
        else:
            cells = re.split(r" {2,}", text, maxsplit=len(starts) - 1)
        return {name: cell for (name, _), cell in zip(self._columns, cells, strict=False)}


def _event_row(row: dict[str, str]) -> list[str] | None:
    kind, _, name = row.get("OBJECT", "").partition("/")
    if not name or not row.get("REASON"):
        return None
    kind = _EVENT_KINDS.get(kind.lower(), kind)
    namespace = row.get("NAMESPACE") or "-"
    return [f"event {row.get('TYPE') or 'Normal'} {row['REASON']} {kind}/{namespace}/{name}: {row.get('MESSAGE', '')}"]


def _pod_row(text: str) -> list[str] | None:
    match = _POD_ROW.match(text)
    if match is None:
        return None
    status = match["status"]
    phase = _PHASES.get(status, "Pending" if status.startswith("Init:") else "Running")
    reason = "" if status in {phase, "Completed"} else status
    return [
        f"pod {match['namespace'] or '-'}/{match['name']} phase={phase} reason={reason} message="
        f" ready={match['ready']} restarts={match['restarts']} age={match['age']}"
        + (f" node={match['node']}" if match["node"] else "")
    ]


def _node_row(row: dict[str, str]) -> list[str] | None:
    name, states = row.get("NAME", ""), row.get("STATUS", "").split(",")
    if states[0] not in {"Ready", "NotReady", "Unknown"}:
        return None
    ready = {"Ready": "True", "NotReady": "False"}.get(states[0], "Unknown")
    facts = [f"condition node/{name} Ready={ready} reason= message="]
    if "SchedulingDisabled" in states:
        facts.append(f"node {name} unschedulable=true")
    return facts


def _daemonset_row(row: dict[str, str]) -> list[str] | None:
    numbers = {key: row.get(key, "") for key in ("DESIRED", "CURRENT", "READY", "AVAILABLE")}
    if not all(number.isdecimal() for number in (numbers["DESIRED"], numbers["CURRENT"], numbers["READY"])):
        return None
    kind = "daemonset" if numbers["AVAILABLE"] else "replicaset"
    return [
        f"{kind} {row.get('NAMESPACE') or '-'}/{row.get('NAME', '')} "
        + " ".join(f"{key.lower()}={number or '0'}" for key, number in numbers.items())
    ]


def _cronjob_row(row: dict[str, str]) -> list[str] | None:
    suspend = row.get("SUSPEND", "").lower()
    if suspend not in {"true", "false"}:
        return None
    last = row.get("LAST SCHEDULE", "").replace("<none>", "never") or "never"
    schedule = row.get("SCHEDULE", "").replace(" ", ",")
    return [
        f"cronjob {row.get('NAMESPACE') or '-'}/{row.get('NAME', '')} schedule={schedule} suspend={suspend} last={last}"
    ]


def _gpu_row(row: dict[str, str]) -> list[str] | None:
    """Return what `kubectl get nodes -o custom-columns=…` says of a node's allocatable GPUs."""
    amount = next(row[column] for column in _GPU_COLUMNS if column in row)
    if not amount.isdecimal() and amount != "<none>":
        return None
    shown = "none" if amount == "<none>" else amount
    name = row.get("NAME") or row.get("NODE") or "-"
    return [f"node {name} allocatable nvidia.com/gpu={shown} capacity nvidia.com/gpu=unknown gpu.present=unset"]


def _policy_row(row: dict[str, str]) -> list[str] | None:
    if "policy" not in row.get("NAME", ""):
        return None
    return [f"clusterpolicy {row['NAME']} state={row.get('STATUS', '')}"]


# The columns that tell a table → what reads its rows.
_ROWS: tuple[tuple[frozenset[str], Callable[[dict[str, str]], list[str] | None]], ...] = (
    (frozenset({"REASON", "OBJECT", "MESSAGE"}), _event_row),
    (frozenset({"STATUS", "ROLES"}), _node_row),
    (frozenset({"DESIRED", "CURRENT"}), _daemonset_row),
    (frozenset({"SCHEDULE", "SUSPEND"}), _cronjob_row),
    *((frozenset({column}), _gpu_row) for column in _GPU_COLUMNS),
)

DESCRIBE = KubectlTextReader("kubectl-describe", DESCRIBE_HEAD)
EVENTS = KubectlTextReader("kubectl-events", EVENTS_HEAD)
TABLE = KubectlTextReader("kubectl-table", TABLE_HEAD)
