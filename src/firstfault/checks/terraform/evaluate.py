"""Evaluates HCL expressions over three kinds of values: known, null, and `Unresolved`.

Nothing is fetched and nothing runs: data sources, providers and computed attributes are `Unresolved`. What is known in
part stays known in part (an object keeps its known keys, a string its text with `${ref}` in the gaps).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from firstfault.checks.located import LocatedDict, LocatedList, Unresolved
from firstfault.checks.terraform.functions import EvaluationLimitError, call_function
from firstfault.checks.terraform.nodes import (
    Binary,
    Call,
    Conditional,
    ForExpr,
    GetAttr,
    Index,
    Literal,
    Node,
    ObjectExpr,
    Root,
    Splat,
    Template,
    TemplateFor,
    TemplateIf,
    TupleExpr,
    Unary,
)
from firstfault.checks.terraform.values import as_bool, as_number, as_text, equal, gap

__all__ = ["Budget", "Evaluator", "Scope"]

_MAX_STEPS = 20_000_000
_MAX_DEPTH = 120
_MAX_ITEMS = 20_000
_MAX_TEXT = 1_000_000
_TRY_FUNCTIONS = {"try", "can"}


# Instances of modules in one configuration: a chain of folders that each call the next twice doubles with every link.
MAX_MODULES = 5_000


class Budget:
    """How much work one audit may spend on evaluation: bombs end as `Unresolved`, not as a hang."""

    def __init__(self, steps: int = _MAX_STEPS) -> None:
        self.left = steps
        self.modules_left = MAX_MODULES

    def enter_module(self) -> None:
        """Count one more instance of a module.

        Raises:
            EvaluationLimitError: None are left.
        """
        self.modules_left -= 1
        if self.modules_left < 0:
            raise EvaluationLimitError(f"its modules call each other to more than {MAX_MODULES:,} instances")

    def spend(self, steps: int = 1) -> None:
        """Take steps.

        Raises:
            EvaluationLimitError: None are left.
        """
        self.left -= steps
        if self.left < 0:
            raise EvaluationLimitError("the configuration needs more evaluation than an audit allows")


class Scope(Protocol):
    """Where names are looked up: the instance of a module."""

    budget: Budget

    def reference(self, path: list[str]) -> tuple[Any, int]:
        """Return the value of the longest reference at the start of `path`, and how many names it took."""

    def read_file(self, function: str, path: str) -> str | Unresolved:
        """Return a file's text, when it lies inside the audited folders."""


class Evaluator:
    """Evaluates nodes within one scope.

    Args:
        scope: Where names that are not `names` are looked up.
        names: Variables of the surrounding `for` expressions, `each`, `count` and iterators of dynamic blocks.
    """

    def __init__(self, scope: Scope, names: Mapping[str, Any] | None = None, depth: int = 0) -> None:
        self._scope = scope
        self._names = dict(names or {})
        self._depth = depth

    def value(self, node: Node) -> Any:
        """Return the value of an expression; what cannot be known, and what would fail, is `Unresolved`."""
        self._scope.budget.spend()
        self._depth += 1
        try:
            if self._depth > _MAX_DEPTH:
                return Unresolved("the expression is nested too deep")
            return _EVALUATE[type(node)](self, node)
        finally:
            self._depth -= 1

    def with_names(self, names: Mapping[str, Any]) -> Evaluator:
        """Return an evaluator that knows more names."""
        return self._inner(names)

    def _inner(self, names: Mapping[str, Any]) -> Evaluator:
        return Evaluator(self._scope, {**self._names, **names}, self._depth)

    def _literal(self, node: Literal) -> Any:
        return node.value

    def _template(self, node: Template) -> Any:
        parts: list[str] = []
        missing: Unresolved | None = None
        for part in node.parts:
            value = self.value(part)
            if isinstance(value, Unresolved):
                missing = missing or value
                parts.append(gap(value))
            else:
                text = as_text(value)
                if isinstance(text, Unresolved):
                    return text
                parts.append(text)
        text = "".join(parts)
        if len(text) > _MAX_TEXT:
            return Unresolved("the text is longer than an audit evaluates")
        return text if missing is None else Unresolved(missing.reason, text=text)

    def _template_if(self, node: TemplateIf) -> Any:
        return self._choose(node.condition, node.then, node.otherwise)

    def _template_for(self, node: TemplateFor) -> Any:
        pairs = self._pairs(self.value(node.collection))
        if isinstance(pairs, Unresolved):
            return Unresolved(pairs.reason, text=gap(pairs))
        parts: list[str] = []
        missing: Unresolved | None = None
        for key, value in pairs:
            result = self._inner({node.key: key, node.value: value} if node.key else {node.value: value}).value(
                node.body
            )
            if isinstance(result, Unresolved):
                missing = missing or result
                result = gap(result)
            parts.append(str(result))
        text = "".join(parts)[:_MAX_TEXT]
        return text if missing is None else Unresolved(missing.reason, text=text)

    def _reference(self, node: Node) -> Any:
        """Evaluate a chain of names (`var.a.b`), looked up as far as the scope knows it, then step by step."""
        names: list[str] = []
        current: Node = node
        while isinstance(current, GetAttr):
            names.append(current.name)
            current = current.target
        if not isinstance(current, Root):
            # The chain starts at something that is evaluated (an index, a call): one step of it is this node.
            assert isinstance(node, GetAttr)
            return step(self.value(node.target), node.name)
        names.append(current.name)
        names.reverse()
        if names[0] in self._names:
            value, used = self._names[names[0]], 1
        else:
            value, used = self._scope.reference(names)
        for name in names[used:]:
            value = step(value, name)
        return value

    def _index(self, node: Index) -> Any:
        target = self.value(node.target)
        key = self.value(node.key)
        if isinstance(key, Unresolved):
            return Unresolved(key.reason)
        return step(target, key)

    def _splat(self, node: Splat) -> Any:
        target = self.value(node.target)
        if isinstance(target, Unresolved):
            rest = "".join(f".{item}" for item in node.steps if isinstance(item, str))
            return Unresolved(target.reason, f"{target.ref}[*]{rest}" if target.ref else "")
        if target is None:
            return LocatedList(node.line)
        items = target if isinstance(target, list) else [target]
        result = LocatedList(node.line)
        for item in items:
            value = item
            for name in node.steps:
                value = step(value, name if isinstance(name, str) else self.value(name))
            result.append(value)
            result.item_lines.append(node.line)
        return result

    def _call(self, node: Call) -> Any:
        if node.name in _TRY_FUNCTIONS:
            return self._try(node)
        arguments = [self.value(argument) for argument in node.arguments]
        if node.expand and arguments:
            last = arguments.pop()
            if isinstance(last, Unresolved):
                return Unresolved(last.reason)
            arguments.extend(last if isinstance(last, list) else [last])
        return call_function(node.name, arguments, self._scope)

    def _try(self, node: Call) -> Any:
        """`try` and `can`: an argument that fails is passed over; one that merely is not known decides nothing."""
        for argument in node.arguments:
            value = self.value(argument)
            if not isinstance(value, Unresolved):
                return True if node.name == "can" else value
            if not value.reason.startswith(_FAILS):
                return value if node.name == "try" else Unresolved(value.reason)
        return False if node.name == "can" else Unresolved("no argument of try() can be evaluated")

    def _choose(self, condition: Node, then: Node, otherwise: Node) -> Any:
        chosen = as_bool(self.value(condition))
        if isinstance(chosen, Unresolved):
            first, second = self.value(then), self.value(otherwise)
            # Either way it is the same: then it is known.
            return first if equal(first, second) is True else Unresolved(chosen.reason)
        return self.value(then if chosen else otherwise)

    def _conditional(self, node: Conditional) -> Any:
        return self._choose(node.condition, node.then, node.otherwise)

    def _binary(self, node: Binary) -> Any:
        if node.operator in {"&&", "||"}:
            return self._logical(node)
        left, right = self.value(node.left), self.value(node.right)
        if node.operator in {"==", "!="}:
            same = equal(left, right)
            return same if isinstance(same, Unresolved) else same == (node.operator == "==")
        first, second = as_number(left), as_number(right)
        if isinstance(first, Unresolved):
            return Unresolved(first.reason)
        if isinstance(second, Unresolved):
            return Unresolved(second.reason)
        try:
            return _ARITHMETIC[node.operator](first, second)
        except (ZeroDivisionError, OverflowError):
            return Unresolved(f"{_FAILS} in the operation {node.operator}")

    def _logical(self, node: Binary) -> Any:
        """`&&` and `||`: one known side can decide although the other is not known."""
        decides = node.operator == "||"
        left = as_bool(self.value(node.left))
        if left is decides:
            return decides
        right = as_bool(self.value(node.right))
        if right is decides:
            return decides
        for side in (left, right):
            if isinstance(side, Unresolved):
                return Unresolved(side.reason)
        return not decides

    def _unary(self, node: Unary) -> Any:
        value = self.value(node.operand)
        if node.operator == "!":
            truth = as_bool(value)
            return Unresolved(truth.reason) if isinstance(truth, Unresolved) else not truth
        number = as_number(value)
        return Unresolved(number.reason) if isinstance(number, Unresolved) else -number

    def _tuple(self, node: TupleExpr) -> Any:
        result = LocatedList(node.line, node.end_line)
        for item in node.items:
            result.append(self.value(item))
            result.item_lines.append(item.line)
        return result

    def _object(self, node: ObjectExpr) -> Any:
        result = LocatedDict(node.line, node.end_line)
        for item in node.items:
            key = self.value(item.key)
            name = key if isinstance(key, Unresolved) else as_text(key)
            if isinstance(name, Unresolved):
                # The keys of the object are not known, so neither is which of its values holds.
                name = gap(name)
            result[name] = self.value(item.value)
            result.key_lines[name] = item.line
        return result

    def _for(self, node: ForExpr) -> Any:
        pairs = self._pairs(self.value(node.collection))
        if isinstance(pairs, Unresolved):
            return Unresolved(pairs.reason)
        if len(pairs) > _MAX_ITEMS:
            return Unresolved("the collection is larger than an audit evaluates")
        as_object = node.key_expr is not None
        mapping, sequence = LocatedDict(node.line), LocatedList(node.line)
        for key, value in pairs:
            inner = self._inner({node.key: key, node.value: value} if node.key else {node.value: value})
            if node.condition is not None:
                wanted = as_bool(inner.value(node.condition))
                if isinstance(wanted, Unresolved):
                    return Unresolved(wanted.reason)
                if not wanted:
                    continue
            result = inner.value(node.value_expr)
            line = int(getattr(result, "line", node.line)) or node.line
            if as_object:
                assert node.key_expr is not None
                name = inner.value(node.key_expr)
                name = gap(name) if isinstance(name, Unresolved) else as_text(name)
                if node.group:
                    mapping.setdefault(name, LocatedList(line)).append(result)
                else:
                    mapping[name] = result
                mapping.key_lines[name] = line
            else:
                sequence.append(result)
                sequence.item_lines.append(line)
        return mapping if as_object else sequence

    def _pairs(self, value: Any) -> list[tuple[Any, Any]] | Unresolved:
        if isinstance(value, dict):
            return list(value.items())
        if isinstance(value, list):
            return list(enumerate(value))
        return Unresolved(value.reason) if isinstance(value, Unresolved) else Unresolved(f"{_FAILS}: not a collection")


_FAILS = "evaluation fails"


def step(value: Any, key: Any) -> Any:
    """Return `value[key]`, or `Unresolved` where it is not known or does not exist."""
    if isinstance(value, Unresolved):
        suffix = f"[{key}]" if isinstance(key, int) else f".{key}"
        return Unresolved(value.reason, value.ref + suffix if value.ref else "")
    if isinstance(value, dict):
        name = key if isinstance(key, str) else as_text(key)
        return value[name] if name in value else Unresolved(f"{_FAILS}: there is no key {key!r}")
    if isinstance(value, list):
        number = as_number(key)
        if isinstance(number, (int, float)) and 0 <= int(number) < len(value):
            return value[int(number)]
    return Unresolved(f"{_FAILS}: there is no element {key!r}")


def _remainder(left: float, right: float) -> float:
    return left - right * int(left / right)


def _divide(left: float, right: float) -> float:
    result = left / right
    return int(result) if result.is_integer() else result


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "%": _remainder,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_EVALUATE: dict[type[Node], Callable[[Evaluator, Any], Any]] = {
    Literal: Evaluator._literal,  # noqa: SLF001 - the class's own table
    Template: Evaluator._template,  # noqa: SLF001
    TemplateIf: Evaluator._template_if,  # noqa: SLF001
    TemplateFor: Evaluator._template_for,  # noqa: SLF001
    Root: Evaluator._reference,  # noqa: SLF001
    GetAttr: Evaluator._reference,  # noqa: SLF001
    Index: Evaluator._index,  # noqa: SLF001
    Splat: Evaluator._splat,  # noqa: SLF001
    Call: Evaluator._call,  # noqa: SLF001
    Conditional: Evaluator._conditional,  # noqa: SLF001
    Binary: Evaluator._binary,  # noqa: SLF001
    Unary: Evaluator._unary,  # noqa: SLF001
    TupleExpr: Evaluator._tuple,  # noqa: SLF001
    ObjectExpr: Evaluator._object,  # noqa: SLF001
    ForExpr: Evaluator._for,  # noqa: SLF001
}
