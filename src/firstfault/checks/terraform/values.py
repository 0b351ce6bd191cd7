"""Conversions and comparison of Terraform values, and types of variables with their optional defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firstfault.checks.located import LocatedDict, LocatedList, Unresolved, find_unresolved
from firstfault.checks.terraform.nodes import Call, Literal, Node, ObjectExpr, Root

__all__ = ["as_bool", "as_number", "as_text", "convert", "equal", "gap"]

_FAILS = "evaluation fails"
Evaluate = Callable[[Node], Any]


def gap(value: Unresolved) -> str:
    """Return how an unknown part is written inside a text that is known otherwise."""
    return value.text or f"${{{value.ref or 'unknown'}}}"


def as_bool(value: Any) -> bool | Unresolved:
    """Return a value as bool by Terraform's conversion rules."""
    if isinstance(value, (bool, Unresolved)):
        return value
    if value in {"true", "1", 1} and not isinstance(value, float):
        return True
    if value in {"false", "0", 0} and not isinstance(value, float):
        return False
    return Unresolved(f"{_FAILS}: not a bool")


def as_number(value: Any) -> int | float | Unresolved:
    """Return a value as number by Terraform's conversion rules."""
    if isinstance(value, Unresolved):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if number == number and abs(number) != float("inf"):  # noqa: PLR0124 - not a NaN
            return int(number) if number.is_integer() else number
    return Unresolved(f"{_FAILS}: not a number")


def as_text(value: Any) -> str | Unresolved:
    """Return a value as string by Terraform's conversion rules."""
    if isinstance(value, (str, Unresolved)):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, (int, float)):
        return str(value)
    return Unresolved(f"{_FAILS}: not a text")


def equal(left: Any, right: Any) -> bool | Unresolved:
    """Compare two values; two unknown values with the same reference are equal."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Unresolved):
            if isinstance(other, Unresolved) and one.ref and one.ref == other.ref:
                return True
            return Unresolved(one.reason)
    if isinstance(left, (dict, list)) and isinstance(right, (dict, list)):
        missing = next(find_unresolved(left), None) or next(find_unresolved(right), None)
        return Unresolved(missing.reason) if missing else left == right
    return type(left) is type(right) and bool(left == right) if isinstance(left, bool) else bool(left == right)


def convert(value: Any, kind: Node | None, evaluate: Evaluate) -> Any:
    """Convert a variable's value to its declared type, with the defaults of `optional(type, default)`.

    A value that does not fit is returned as it is: Terraform would refuse it, and a check may still look at it.

    Args:
        evaluate: Gives the value of a default.
    """
    if kind is None or value is None or isinstance(value, Unresolved):
        return value
    if isinstance(kind, Root):
        return _primitive(value, kind.name)
    return _collection(value, kind, evaluate) if isinstance(kind, Call) and kind.arguments else value


def _collection(value: Any, kind: Call, evaluate: Evaluate) -> Any:
    inner = kind.arguments[0]
    if kind.name == "optional":
        return convert(value, inner, evaluate)
    if kind.name in {"list", "set"} and isinstance(value, LocatedList):
        return _sequence(value, inner, evaluate)
    if kind.name == "map" and isinstance(value, LocatedDict):
        return _mapping(value, dict.fromkeys(value, inner), evaluate)
    if kind.name == "object" and isinstance(value, LocatedDict) and isinstance(inner, ObjectExpr):
        kinds = {item.key.value: item.value for item in inner.items if isinstance(item.key, Literal)}
        return _mapping(value, kinds, evaluate)
    return value


def _primitive(value: Any, name: str) -> Any:
    converters = {"bool": as_bool, "number": as_number, "string": as_text}
    if name not in converters:
        return value
    converted = converters[name](value)
    return value if isinstance(converted, Unresolved) else converted


def _sequence(value: LocatedList, kind: Node, evaluate: Evaluate) -> LocatedList:
    result = LocatedList(value.line, value.end_line)
    result.extend(convert(item, kind, evaluate) for item in value)
    result.item_lines.extend(value.item_lines)
    return result


def _mapping(value: LocatedDict, kinds: dict[Any, Node], evaluate: Evaluate) -> LocatedDict:
    result = LocatedDict(value.line, value.end_line)
    result.key_lines.update(value.key_lines)
    for key, item in value.items():
        result[key] = convert(item, kinds.get(key), evaluate)
    for key, kind in kinds.items():
        if key not in result and isinstance(kind, Call) and kind.name == "optional":
            default = evaluate(kind.arguments[1]) if len(kind.arguments) > 1 else None
            result[key] = convert(default, kind.arguments[0], evaluate)
            result.key_lines[key] = value.line
    return result
