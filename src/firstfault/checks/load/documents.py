"""Sorts documents into the inventory by what they are; the name of a file says nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.load.yaml_documents import read_yaml
from firstfault.checks.located import LocatedDict, LocatedList, dig
from firstfault.checks.prometheus import AlertRule, Document
from firstfault.errors import InputError
from firstfault.model.audit import ReadProblem

__all__ = ["add_document", "add_yaml_text", "parse_json"]

_EMBEDDED_SUFFIXES = (".yaml", ".yml", ".rules", ".json")
# Above this, JSON is read without lines: it is a plan, a dashboard or a lock file, not something written by hand.
_JSON_WITH_LINES_BYTES = 512 * 1024
_DOCUMENT_START = "---"


def add_yaml_text(inventory: Inventory, text: str, path: str, offset: int = 0) -> None:
    """Read a YAML stream into the inventory; a broken document is reported and the others are kept.

    Args:
        offset: Lines before the first one of `text` in the file (for streams inside a ConfigMap).
    """
    stream = read_yaml("\n" * offset + text, path)
    if stream.problem is None:
        documents = stream.documents
    else:
        documents = []
        for start, part in _split(text):
            piece = read_yaml("\n" * (offset + start) + part, path)
            documents.extend(piece.documents)
            if piece.problem is not None:
                problem = str(piece.problem)
                inventory.problems.append(ReadProblem(path=path, line=piece.problem_line, message=problem))
    for document in documents:
        add_document(inventory, document, path)


def _split(text: str) -> Iterator[tuple[int, str]]:
    """Yield the documents of a stream as text, each with the number of lines before it."""
    start, lines = 0, text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        if index > start and (line.rstrip() == _DOCUMENT_START or line.startswith(f"{_DOCUMENT_START} ")):
            yield start, "".join(lines[start:index])
            start = index
    yield start, "".join(lines[start:])


def parse_json(text: str, path: str) -> Any:
    """Return the value of a JSON text, with lines where its size allows.

    Raises:
        InputError: Not JSON; the message says where.
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise InputError(f"{path}: not JSON that can be read: nested too deep") from error
    except ValueError as error:
        raise InputError(f"{path}: not JSON that can be read: {error}".partition(";")[0]) from error
    if len(text) <= _JSON_WITH_LINES_BYTES:
        # JSON is YAML except for a few escapes and tabs; where libyaml declines, the value has no lines.
        stream = read_yaml(text, path)
        if stream.problem is None and len(stream.documents) == 1:
            return stream.documents[0]
    return _locate(value, path)


def _locate(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        mapping = LocatedDict(1, 0, path)
        for key, item in value.items():
            mapping[key] = _locate(item, "")
        return mapping
    if isinstance(value, list):
        sequence = LocatedList(1)
        sequence.extend(_locate(item, "") for item in value)
        sequence.item_lines.extend([1] * len(sequence))
        return sequence
    return value


def add_document(inventory: Inventory, value: Any, path: str) -> None:
    """Put one document where checks find it."""
    if isinstance(value, LocatedList):
        for item in value:
            if isinstance(item, LocatedDict) and "apiVersion" in item:
                add_document(inventory, item, path)
        return
    if not isinstance(value, LocatedDict):
        return
    if isinstance(value.get("apiVersion"), str) and isinstance(value.get("kind"), str):
        _add_object(inventory, value, path)
    elif _is_rule_file(value):
        inventory.alerts.extend(_alerts(value.get("groups"), path, ""))
        inventory.documents.append(Document(value, path))
    elif isinstance(value.get("route"), dict) and "receivers" in value:
        inventory.alertmanager_configs.append(Document(value, path))
    elif "scrape_configs" in value or isinstance(dig(value, "global", "scrape_interval"), str):
        inventory.prometheus_configs.append(Document(value, path))
    elif isinstance(value.get("Statement"), (dict, list)):
        inventory.iam.append(Document(value, path))
    else:
        inventory.documents.append(Document(value, path))


def _add_object(inventory: Inventory, value: LocatedDict, path: str) -> None:
    items = value.get("items")
    if str(value["kind"]).endswith("List") and isinstance(items, list):
        for item in items:
            add_document(inventory, item, path)
        return
    item = KubeObject(value, path)
    inventory.kube.append(item)
    if item.kind == "PrometheusRule":
        inventory.alerts.extend(_alerts(dig(value, "spec", "groups"), path, item.subject))
    elif item.kind in {"ConfigMap", "Secret"} and item.group == "":
        _add_embedded(inventory, item)


def _add_embedded(inventory: Inventory, item: KubeObject) -> None:
    """Read the files that a ConfigMap (or a Secret's stringData) carries: rules and configuration often live there."""
    for section in ("data", "stringData"):
        files = item.body.get(section)
        if not isinstance(files, LocatedDict) or (section == "data" and item.kind == "Secret"):
            continue
        for name, text in files.items():
            if isinstance(text, str) and str(name).endswith(_EMBEDDED_SUFFIXES):
                # A block scalar's text starts on the line after its key.
                offset = files.key_lines.get(name, 1) if "\n" in text else files.key_lines.get(name, 1) - 1
                stream = read_yaml("\n" * offset + text, item.path)
                for document in stream.documents:
                    if not (isinstance(document, dict) and "apiVersion" in document):
                        add_document(inventory, document, item.path)


def _is_rule_file(value: LocatedDict) -> bool:
    groups = value.get("groups")
    return (
        isinstance(groups, list)
        and bool(groups)
        and all(isinstance(group, dict) and isinstance(group.get("rules"), list) for group in groups)
    )


def _alerts(groups: Any, path: str, where: str) -> Iterator[AlertRule]:
    for group in groups if isinstance(groups, list) else []:
        rules = group.get("rules") if isinstance(group, LocatedDict) else None
        for rule in rules if isinstance(rules, list) else []:
            if isinstance(rule, LocatedDict) and "alert" in rule:
                yield AlertRule(str(rule["alert"]), str(rule.get("expr", "")), rule, group, path, where)
