"""Says which parts of what was read no check can judge: passed over must not look like sound."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.located import ABSENT
from firstfault.checks.prometheus import AlertRule
from firstfault.checks.promql import is_beyond_reading, is_promql
from firstfault.model.audit import ReadProblem

__all__ = ["add_remarks"]

_POD_SPECS: dict[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job"),
        ("spec", "template", "spec"),
    ),
}


def add_remarks(inventory: Inventory) -> None:
    """Add to the notes what is malformed, and to the problems what no reader is given."""
    for alert in inventory.alerts:
        if is_beyond_reading(alert.expr):
            line = alert.place("expr").line
            why = "the expression is longer or nested deeper than any that is read"
            message = f"{alert.path}:{line}: {alert.subject}: {why}"
            inventory.problems.append(ReadProblem(path=alert.path, line=line, message=message))
        else:
            inventory.notes.extend(_of_alert(alert))
    for item in inventory.kube:
        inventory.notes.extend(_of_object(item))


def _of_alert(alert: AlertRule) -> Iterator[str]:
    if not is_promql(alert.expr):
        place = alert.place("expr")
        yield f"{alert.path}:{place.line}: {alert.subject}: the expression is not PromQL and is not judged"
    if alert.hold_s is None and alert.body["for"] is not None:
        yield f"{alert.path}:{alert.place('for').line}: {alert.subject}: `for` is no duration that Prometheus takes"
    if isinstance(alert.body["alert"], (dict, list)):
        yield f"{alert.path}:{alert.place('alert').line}: {alert.subject}: the name of the alert is no text"


def _of_object(item: KubeObject) -> Iterator[str]:
    steps = _POD_SPECS.get(item.kind)
    containers = item.get(*steps, "containers") if steps else ABSENT
    if steps and containers is not ABSENT and not isinstance(containers, list):
        line = item.place(*steps, "containers").line
        yield f"{item.path}:{line}: {item.subject}: containers is not a list, so this Pod is not judged"
