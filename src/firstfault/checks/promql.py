"""PromQL as checks see it: the series that an expression reads, with the functions and comparisons around each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import LocatedDict, Place, place_of
from firstfault.checks.prometheus import AlertRule

__all__ = [
    "GPU_RESOURCE",
    "RecordingRule",
    "Selector",
    "gpu_alerts",
    "is_beyond_reading",
    "is_gpu_allocatable",
    "is_promql",
    "names_gpu_nodes",
    "recording_rules",
    "series_of",
]

GPU_RESOURCE = re.compile(r"nvidia(?:_|\.)com(?:_|/)(?:gpu|mig)|nvidia")
_GPU_METRICS = re.compile(r"DCGM_|nvidia|nccl|vllm|gpu|xid", re.IGNORECASE)
_GPU_NODE_LABEL = re.compile(r"label_(?:.*(?:gpu|nvidia|accelerator|instance_type|instance_family|nodegroup|nodepool))")
_COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})
_MIRROR = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
_DEPTH = 5
_MAX_LENGTH = 32_768
_MAX_NESTING = 100
_MAX_OPERATORS = 500
# Strings and comments are passed over: what stands in them nests nothing.
_MARKS = re.compile(
    r"""(?s:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)|#[^\n]*|([(\[{)\]}]|[-+*/%^]|[=!<>]+|\b(?i:and|or|unless|atan2)\b)"""
)
# What a defect of the parser's native code comes up as (`foo offset NaN`): no Exception, so nobody else would catch it.
_PANIC = "PanicException"
_OPENING = frozenset("([{")
_CLOSING = frozenset(")]}")


class Selector(msgspec.Struct, frozen=True):
    """One series selector of an expression.

    Attributes:
        metric: Metric name; empty where only labels select.
        labels: (label, operator, value) of each matcher.
        calls: Functions around it, outermost first.
        compare: (operator, number) of the nearest comparison with a number.
        negated: It stands on the right of `unless`.
    """

    metric: str
    labels: tuple[tuple[str, str, str], ...] = ()
    calls: tuple[str, ...] = ()
    compare: tuple[str, float] | None = None
    negated: bool = False

    def label(self, name: str) -> str:
        """Return the value of the positive matchers of a label, or an empty text."""
        return next((value for key, op, value in self.labels if key == name and op in {"=", "=~"}), "")


def is_beyond_reading(expression: str) -> bool:
    """Tell whether an expression is longer or nested deeper than any that is written: the parser is not given it.

    Its native code recurses while it reads and frees a tree, so that deep nesting would end the whole process.
    """
    if len(expression) > _MAX_LENGTH:
        return True
    depth = operators = 0
    for mark in filter(None, _MARKS.findall(expression)):
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
        else:
            operators += 1
        if depth > _MAX_NESTING or operators > _MAX_OPERATORS:
            return True
    return False


@cache
def _selectors(expression: str) -> tuple[Selector, ...] | None:
    """Return the selectors of an expression, or None when it is no PromQL."""
    import promql_parser  # noqa: PLC0415 - only audits of rules need it

    if is_beyond_reading(expression):
        return None
    try:
        return tuple(_walk(promql_parser.parse(expression), (), None, negated=False))
    except (ValueError, OverflowError, RecursionError):
        return None
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        return None


def _walk(node: Any, calls: tuple[str, ...], compare: tuple[str, float] | None, *, negated: bool) -> Iterator[Selector]:
    kind = type(node).__name__
    if kind == "VectorSelector":
        labels = tuple((item.name, _OPERATORS.get(str(item.op), "="), item.value) for item in node.matchers.matchers)
        name = node.name or next((value for key, _, value in labels if key == "__name__"), "")
        yield Selector(name, labels, calls, compare, negated)
    elif kind == "BinaryExpr":
        operator = str(node.op)
        for this, other, mirrored in ((node.lhs, node.rhs, False), (node.rhs, node.lhs, True)):
            inner = compare if operator in {"+", "-", "*", "/", "%", "^"} else None
            number = _number(other)
            if operator in _COMPARISONS and number is not None:
                inner = (_MIRROR.get(operator, operator) if mirrored else operator, number)
            yield from _walk(this, calls, inner, negated=negated or (operator == "unless" and mirrored))
    elif kind == "Call":
        for argument in node.args:
            yield from _walk(argument, (*calls, node.func.name), compare, negated=negated)
    elif kind == "MatrixSelector":
        yield from _walk(node.vector_selector, calls, compare, negated=negated)
    elif hasattr(node, "expr"):
        inner_calls = (*calls, str(node.op)) if kind == "AggregateExpr" else calls
        yield from _walk(node.expr, inner_calls, compare, negated=negated)


_OPERATORS = {"MatchOp.Equal": "=", "MatchOp.NotEqual": "!=", "MatchOp.Re": "=~", "MatchOp.NotRe": "!~"}


def _number(node: Any) -> float | None:
    while type(node).__name__ == "ParenExpr":
        node = node.expr
    return float(node.val) if type(node).__name__ == "NumberLiteral" else None


def is_promql(expression: str) -> bool:
    """Tell whether an expression can be read as PromQL."""
    return _selectors(expression) is not None


def series_of(inventory: Inventory, alert: AlertRule) -> list[Selector] | None:
    """Return the selectors of an alert, with those of the recording rules that it reads; None when it is no PromQL."""

    def by_name() -> dict[str, list[str]]:
        named: dict[str, list[str]] = {}
        for rule in recording_rules(inventory):
            named.setdefault(rule.name, []).append(rule.expr)
        return named

    records: dict[str, list[str]] = inventory.memo("recorded_series", by_name)
    found = _selectors(alert.expr)
    return None if found is None else list(_expand(found, records, _DEPTH))


def _expand(selectors: tuple[Selector, ...], records: dict[str, list[str]], depth: int) -> Iterator[Selector]:
    for selector in selectors:
        yield selector
        for expression in records.get(selector.metric, []) if depth else []:
            inner = tuple(
                Selector(
                    item.metric,
                    (*item.labels, *selector.labels),
                    (*selector.calls, *item.calls),
                    selector.compare or item.compare,
                    selector.negated or item.negated,
                )
                for item in _selectors(expression) or ()
            )
            yield from _expand(inner, records, depth - 1)


class RecordingRule(msgspec.Struct, frozen=True):
    """A rule that writes a series.

    Attributes:
        name: Of the series.
        expr: Its PromQL.
        subject: `group/name`, for messages.
        place: Line of the expression.
    """

    name: str
    expr: str
    subject: str
    place: Place


def recording_rules(inventory: Inventory) -> list[RecordingRule]:
    """Return the recording rules of rule files and PrometheusRule objects."""
    found: list[RecordingRule] = inventory.memo("recording_rules", lambda: list(_records(inventory)))
    return found


def _records(inventory: Inventory) -> Iterator[RecordingRule]:
    listed = [(item.path, item.get("spec", "groups")) for item in inventory.objects("PrometheusRule")]
    listed += [(document.path, document.body.get("groups")) for document in inventory.documents]
    for path, groups in listed:
        for group in groups if isinstance(groups, list) else []:
            rules = group.get("rules") if isinstance(group, LocatedDict) else None
            for rule in rules if isinstance(rules, list) else []:
                if isinstance(rule, dict) and "record" in rule:
                    name = str(rule["record"])
                    subject = "/".join(part for part in (str(group.get("name", "")), name) if part)
                    yield RecordingRule(name, str(rule.get("expr", "")), subject, place_of(path, rule, "expr"))


def gpu_alerts(inventory: Inventory) -> list[AlertRule]:
    """Return the alerts about GPUs, NCCL or model serving."""

    def make() -> list[AlertRule]:
        return [alert for alert in inventory.alerts if _is_about_gpus(inventory, alert)]

    found: list[AlertRule] = inventory.memo("gpu_alerts", make)
    return found


def _is_about_gpus(inventory: Inventory, alert: AlertRule) -> bool:
    series = series_of(inventory, alert)
    if series is None:
        return False
    return any(
        _GPU_METRICS.search(item.metric)
        or any(_GPU_METRICS.search(value) for _, op, value in item.labels if op in {"=", "=~"})
        or any(_GPU_METRICS.search(key) for key, _, _ in item.labels if key.startswith("label_"))
        for item in series
    )


def is_gpu_allocatable(selector: Selector) -> bool:
    """Tell whether a selector reads the allocatable GPUs of nodes."""
    if selector.metric == "kube_node_status_allocatable_nvidia_gpu_cards":
        return True
    return selector.metric == "kube_node_status_allocatable" and bool(GPU_RESOURCE.search(selector.label("resource")))


def names_gpu_nodes(selector: Selector) -> bool:
    """Tell whether a selector reads the labels that say which nodes have GPUs."""
    return selector.metric == "kube_node_labels" and any(_GPU_NODE_LABEL.match(key) for key, _, _ in selector.labels)
