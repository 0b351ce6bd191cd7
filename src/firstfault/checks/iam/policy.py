"""Reads IAM policy documents into statements whose one-or-many fields are always lists."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from firstfault.checks.located import LocatedDict, line_of
from firstfault.errors import InputError

__all__ = ["Policy", "Statement", "parse_policy"]


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """One statement.

    Attributes:
        effect: "Allow" or "Deny".
        actions: Action patterns; with `not_actions` the ones that it is *not* about.
        resources: Resource patterns; empty in trust policies, which are about their own role.
        principals: {"AWS": […], "Service": […]}, or {"*": ["*"]} for everybody; None in identity policies.
        conditions: {operator: {key: [values]}}.
        line: Line of the statement in its file; 0 where it is not known.
    """

    effect: str
    actions: list[str] = []
    not_actions: list[str] | None = None
    resources: list[str] = []
    not_resources: list[str] | None = None
    principals: dict[str, list[str]] | None = None
    not_principals: dict[str, list[str]] | None = None
    conditions: dict[str, dict[str, list[str]]] = {}
    sid: str = ""
    line: int = 0


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """One policy document.

    Attributes:
        statements: In file order.
        version: "2012-10-17" or "2008-10-17"; policy variables hold only in the newer language.
        name: For messages.
    """

    statements: list[Statement]
    version: str = "2008-10-17"
    name: str = ""


def parse_policy(document: Any, name: str = "") -> Policy:
    """Return a policy from a decoded document or its JSON text.

    Raises:
        InputError: It has no statements of the documented shape; the message says which one.
    """
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except ValueError as error:
            raise InputError(f"{name or 'the policy'} is not JSON: {error}") from error
    if not isinstance(document, dict) or "Statement" not in document:
        raise InputError(f"{name or 'the policy'} has no Statement")
    statements = document["Statement"]
    items = statements if isinstance(statements, list) else [statements]
    parsed = []
    for index, item in enumerate(items):
        if not isinstance(item, dict) or item.get("Effect") not in {"Allow", "Deny"}:
            raise InputError(f"{name or 'the policy'}: statement {index} has no Effect Allow or Deny")
        line = line_of(item) if isinstance(item, LocatedDict) else 0
        parsed.append(_statement(item, line))
    return Policy(statements=parsed, version=str(document.get("Version", "2008-10-17")), name=name)


def _statement(item: dict[str, Any], line: int) -> Statement:
    return Statement(
        effect=item["Effect"],
        actions=_texts(item.get("Action", [])),
        not_actions=_texts(item["NotAction"]) if "NotAction" in item else None,
        resources=_texts(item.get("Resource", [])),
        not_resources=_texts(item["NotResource"]) if "NotResource" in item else None,
        principals=_principals(item["Principal"]) if "Principal" in item else None,
        not_principals=_principals(item["NotPrincipal"]) if "NotPrincipal" in item else None,
        conditions=_conditions(item.get("Condition", {})),
        sid=str(item.get("Sid", "")),
        line=line,
    )


def _principals(value: Any) -> dict[str, list[str]]:
    if isinstance(value, dict):
        return {str(kind): _texts(names) for kind, names in value.items()}
    return {"*": _texts(value)}


def _conditions(value: Any) -> dict[str, dict[str, list[str]]]:
    if not isinstance(value, dict):
        return {}
    return {
        str(operator): {str(key): _texts(wanted) for key, wanted in keys.items()}
        for operator, keys in value.items()
        if isinstance(keys, dict)
    }


def _texts(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    return [("true" if item else "false") if isinstance(item, bool) else str(item) for item in items]
