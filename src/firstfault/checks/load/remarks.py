"""Says which parts of what was read no check can judge: passed over must not look like sound."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.located import ABSENT, Place
from firstfault.checks.prometheus import AlertRule
from firstfault.checks.promql import is_beyond_reading, is_promql, recording_rules
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
        _of_expression(inventory, alert.expr, alert.subject, alert.place("expr"))
        inventory.notes.extend(_of_alert(alert))
    for rule in recording_rules(inventory):
        _of_expression(inventory, rule.expr, rule.subject, rule.place)
    for item in inventory.kube:
        inventory.notes.extend(_of_object(item))


def _of_expression(inventory: Inventory, expression: str, subject: str, place: Place) -> None:
    where = f"{place.path}:{place.line}: {subject}"
    if is_beyond_reading(expression):
        why = "the expression is longer or nested deeper than any that is read"
        inventory.problems.append(ReadProblem(path=place.path, line=place.line, message=f"{where}: {why}"))
    elif not is_promql(expression):
        inventory.notes.append(f"{where}: the expression is not PromQL and is not judged")


def _of_alert(alert: AlertRule) -> Iterator[str]:
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
