"""Label selectors of Kubernetes."""

from __future__ import annotations

from typing import Any

__all__ = ["selects"]


def selects(selector: Any, labels: dict[str, Any]) -> bool:
    """Tell whether a selector (`matchLabels`, `matchExpressions`) selects these labels. An empty one selects all."""
    if not isinstance(selector, dict):
        return False
    wanted = selector.get("matchLabels")
    if isinstance(wanted, dict) and any(str(labels.get(key, "\0")) != str(value) for key, value in wanted.items()):
        return False
    expressions = selector.get("matchExpressions")
    return all(_holds(item, labels) for item in (expressions if isinstance(expressions, list) else []))


def _holds(expression: Any, labels: dict[str, Any]) -> bool:
    if not isinstance(expression, dict):
        return False
    key, operator = str(expression.get("key", "")), expression.get("operator")
    listed = expression.get("values")
    values = {str(value) for value in listed} if isinstance(listed, list) else set()
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    inside = key in labels and str(labels[key]) in values
    return inside if operator == "In" else not inside
