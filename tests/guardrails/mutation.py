"""Breaks PromQL expressions in the ways in which people break them.

Each mutant has a name, so that a rule can say of one that no test could see it (`equivalent_mutants`).
"""

from __future__ import annotations

from collections.abc import Iterator

import promql_parser as promql

FLIPPED = {"==": "!=", "!=": "==", "<": ">", ">": "<", "<=": ">", ">=": "<"}
SETS = {"and", "unless"}


def mutants(expr: str) -> Iterator[tuple[str, str]]:
    """Yield (name, broken expression), each once and each still PromQL."""
    seen = {text(promql.parse(expr))}
    counts: dict[str, int] = {}
    for name, broken in _mutate(promql.parse(expr)):
        counts[name] = counts.get(name, 0) + 1
        if broken in seen:
            continue
        seen.add(broken)
        try:
            promql.parse(broken)
        except ValueError:
            continue
        yield (name if counts[name] == 1 else f"{name} #{counts[name]}"), broken


def text(node: promql.Expr) -> str:
    """Write a node back, with parentheses so that a mutated operand cannot change how the rest is read."""
    match node:
        case promql.BinaryExpr():
            return _binary(text(node.lhs), node, text(node.rhs))
        case promql.ParenExpr():
            return f"({text(node.expr)})"
        case _:
            return str(node)


def _binary(lhs: str, node: promql.BinaryExpr, rhs: str) -> str:
    return f"({lhs}) {node.op} {_modifier(node)} ({rhs})"


def _modifier(node: promql.BinaryExpr) -> str:
    return str(node.modifier) if node.modifier else ""


def _mutate(node: promql.Expr) -> Iterator[tuple[str, str]]:
    match node:
        case promql.BinaryExpr():
            yield from _mutate_binary(node)
        case promql.AggregateExpr():
            yield from _drop_labels(str(node), "aggregate")
            yield from _inside(node, node.expr)
        case promql.Call():
            for argument in node.args:
                yield from _inside(node, argument)
        case promql.ParenExpr():
            for name, broken in _mutate(node.expr):
                yield name, f"({broken})"
        case promql.SubqueryExpr() | promql.UnaryExpr():
            yield from _inside(node, node.expr)
        case promql.MatrixSelector():
            yield from _inside(node, node.vector_selector)
        case promql.VectorSelector():
            yield from _mutate_selector(node)


def _mutate_binary(node: promql.BinaryExpr) -> Iterator[tuple[str, str]]:
    lhs, rhs = text(node.lhs), text(node.rhs)
    yield from _mutate_operator(node, lhs, rhs)
    for name, broken in _drop_labels(_modifier(node), "join"):
        yield name, f"({lhs}) {node.op} {broken} ({rhs})"
    for name, broken in _mutate(node.lhs):
        yield name, _binary(broken, node, rhs)
    for name, broken in _mutate(node.rhs):
        yield name, _binary(lhs, node, broken)


def _mutate_operator(node: promql.BinaryExpr, lhs: str, rhs: str) -> Iterator[tuple[str, str]]:
    operator = str(node.op)
    if operator in SETS:
        yield f"drop `{operator}`", lhs
    elif operator == "or":
        yield "drop left of `or`", rhs
        yield "drop right of `or`", lhs
    elif operator == "*":
        yield "drop factor", lhs
    elif operator in FLIPPED:
        yield f"`{operator}` -> `{FLIPPED[operator]}`", f"({lhs}) {FLIPPED[operator]} {_modifier(node)} ({rhs})"
        if isinstance(node.rhs, promql.NumberLiteral):
            yield "threshold doubled", _binary(lhs, node, str(node.rhs.val * 2 + 1))
            yield "threshold lowered", _binary(lhs, node, str(node.rhs.val / 2 - 0.5))
            if node.rhs.val == 0:
                yield "absent()", f"absent({lhs})"


def _drop_labels(written: str, where: str) -> Iterator[tuple[str, str]]:
    """Drop one label of `by (…)` or `on (…)` at a time."""
    for word in ("by (", "on (", "by(", "on("):
        start = written.find(word)
        if start < 0 or (start and written[start - 1].isalnum()):
            continue
        end = written.index(")", start)
        labels = [label.strip() for label in written[start + len(word) : end].split(",") if label.strip()]
        for label in labels:
            rest = ", ".join(other for other in labels if other != label)
            yield f"{where} without {label}", written[: start + len(word)] + rest + written[end:]
        return


def _inside(node: promql.Expr, child: promql.Expr) -> Iterator[tuple[str, str]]:
    whole, part = str(node), str(child)
    if part not in whole:
        raise AssertionError(f"{part!r} is not written as it stands in {whole!r}")
    for name, broken in _mutate(child):
        yield name, whole.replace(part, broken, 1)


def _mutate_selector(node: promql.VectorSelector) -> Iterator[tuple[str, str]]:
    whole = str(node)
    matchers = list(node.matchers.matchers)
    for position, matcher in enumerate(matchers):
        rest = [m for index, m in enumerate(matchers) if index != position]
        inner = ",".join(_matcher(m) for m in rest)
        selector = f"{node.name or ''}{{{inner}}}"
        tail = whole[whole.index("}") + 1 :] if "}" in whole else ""
        yield f"matcher {matcher.name} dropped from {node.name}", selector + tail
    if " offset " in whole:
        yield "offset dropped", whole[: whole.index(" offset ")]


def _matcher(matcher: promql.Matcher) -> str:
    sign = {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}[str(matcher.op).rsplit(".", 1)[-1]]
    value = matcher.value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{matcher.name}{sign}"{value}"'
