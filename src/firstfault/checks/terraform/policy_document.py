"""What `data.aws_iam_policy_document` computes offline: the JSON of a policy from its statement blocks."""

from __future__ import annotations

import json
from typing import Any

from firstfault.checks.located import Unresolved, find_unresolved
from firstfault.checks.terraform.values import gap

__all__ = ["policy_json"]

_LISTS = {
    "actions": "Action",
    "not_actions": "NotAction",
    "resources": "Resource",
    "not_resources": "NotResource",
}


def policy_json(body: dict[str, Any]) -> str | Unresolved:
    """Return the policy's JSON; where parts are not known, an `Unresolved` whose text has `${ref}` in the gaps."""
    statements = [_statement(item) for item in _list(body.get("statement"))]
    for key in ("source_policy_documents", "override_policy_documents"):
        for document in _list(body.get(key)):
            statements.extend(_statements_of(document))
    text = json.dumps({"Version": body.get("version", "2012-10-17"), "Statement": statements}, sort_keys=True)
    missing = next(find_unresolved(body), None)
    return text if missing is None else Unresolved(missing.reason, text=text)


def _statement(body: Any) -> dict[str, Any]:
    statement: dict[str, Any] = {"Effect": _text(body.get("effect", "Allow"))}
    if body.get("sid"):
        statement["Sid"] = _text(body["sid"])
    for key, name in _LISTS.items():
        if body.get(key) is not None:
            statement[name] = _texts(body[key])
    for key, name in (("principals", "Principal"), ("not_principals", "NotPrincipal")):
        principals: dict[str, list[str]] = {}
        for item in _list(body.get(key)):
            principals.setdefault(_text(item.get("type", "")), []).extend(_texts(item.get("identifiers")))
        if principals:
            statement[name] = principals
    condition: dict[str, dict[str, list[str]]] = {}
    for item in _list(body.get("condition")):
        test = condition.setdefault(_text(item.get("test", "")), {})
        test.setdefault(_text(item.get("variable", "")), []).extend(_texts(item.get("values")))
    if condition:
        statement["Condition"] = condition
    return statement


def _statements_of(document: Any) -> list[Any]:
    text = document.text if isinstance(document, Unresolved) else document
    try:
        statements = json.loads(text)["Statement"]
    except (ValueError, TypeError, KeyError):
        return []
    return statements if isinstance(statements, list) else [statements]


def _list(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [item for item in value if isinstance(item, (dict, str, Unresolved))]
    return []


def _texts(value: Any) -> list[str]:
    return [_text(item) for item in value] if isinstance(value, list) else [_text(value)]


def _text(value: Any) -> str:
    return gap(value) if isinstance(value, Unresolved) else str(value)
