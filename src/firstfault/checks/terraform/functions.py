"""Terraform's pure functions. A function that is not here, or that depends on time or chance, gives `Unresolved`."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from typing import Any, Protocol

import yaml

from firstfault.checks.load.yaml_documents import read_yaml
from firstfault.checks.located import LocatedDict, LocatedList, Unresolved, find_unresolved
from firstfault.checks.terraform.pure_functions import MAX_RESULT, TOTAL, FunctionFailsError, distinct
from firstfault.checks.terraform.values import as_bool, as_number, as_text, equal, gap

__all__ = ["EvaluationLimitError", "FileReader", "call_function"]

_FAILS = "evaluation fails"
_FILE_FUNCTIONS = frozenset({"file", "templatefile", "filebase64"})
_MAX_TEXT = 1_000_000


class EvaluationLimitError(Exception):
    """Evaluation would take more than an audit allows."""


class FileReader(Protocol):
    """Reads files for `file()` and `templatefile()`, inside the audited folders only."""

    def read_file(self, function: str, path: str) -> str | Unresolved:
        """Return the text, or why it cannot be had."""


def call_function(name: str, arguments: list[Any], files: FileReader) -> Any:
    """Return the result of a function.

    Functions that look at single values need all of them known; those that only move values around (`merge`, `concat`,
    `lookup`, `jsonencode`, …) keep what is known.
    """
    name = name.removeprefix("core::")
    if name in _FILE_FUNCTIONS:
        return _read_file(name, arguments, files)
    function = _PARTIAL.get(name)
    if function is None:
        function = TOTAL.get(name)
        missing = next(find_unresolved(arguments), None)
        if function is None or missing is not None:
            return Unresolved(missing.reason if missing else f"the function {name}() is evaluated by Terraform only")
    return _applied(name, function, arguments)


def _applied(name: str, function: Callable[..., Any], arguments: list[Any]) -> Any:
    try:
        result = function(*arguments)
    except FunctionFailsError as error:
        return Unresolved(f"{_FAILS} in {name}(): {error}")
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, StopIteration) as error:
        # What Python's own functions raise for arguments of the wrong kind: Terraform refuses those as well.
        return Unresolved(f"{_FAILS} in {name}(): {type(error).__name__}")
    if isinstance(result, str) and len(result) > _MAX_TEXT:
        return Unresolved(f"the result of {name}() is larger than an audit evaluates")
    return _wrap(result)


def _wrap(value: Any) -> Any:
    """Return plain dicts and lists as located ones."""
    if isinstance(value, dict) and not isinstance(value, LocatedDict):
        mapping = LocatedDict()
        mapping.update({key: _wrap(item) for key, item in value.items()})
        return mapping
    if isinstance(value, (list, tuple)) and not isinstance(value, LocatedList):
        items = list(itertools.islice(value, MAX_RESULT + 1))
        if len(items) > MAX_RESULT:
            return Unresolved("the list is longer than an audit evaluates")
        sequence = LocatedList()
        sequence.extend(_wrap(item) for item in items)
        sequence.item_lines.extend(int(getattr(item, "line", 0)) for item in items)
        return sequence
    return value


def _read_file(name: str, arguments: list[Any], files: FileReader) -> Any:
    missing = next(find_unresolved(arguments[:1]), None)
    if missing is not None or not arguments or not isinstance(arguments[0], str):
        return Unresolved(missing.reason if missing else f"{_FAILS} in {name}()")
    text = files.read_file(name, arguments[0])
    if isinstance(text, Unresolved) or name == "file":
        return text
    if name == "filebase64":
        return base64.b64encode(text.encode()).decode()
    return text if "${" not in text and "%{" not in text else Unresolved(f"{arguments[0]} is a template", text=text)


# -- functions that keep what is known ---------------------------------------------------------------------------


def _known(value: Any) -> Any:
    if isinstance(value, Unresolved):
        raise UnknownArgumentError(value)
    return value


class UnknownArgumentError(FunctionFailsError):
    """An argument that decides the whole result is not known."""

    def __init__(self, value: Unresolved) -> None:
        super().__init__(value.reason)
        self.value = value


def _passing_unknown(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn `UnknownArgumentError` into the unresolved value, with its reason as it is."""

    def wrapped(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except UnknownArgumentError as unknown:
            return Unresolved(unknown.value.reason)

    return wrapped


def _merge(*maps: Any) -> LocatedDict:
    result = LocatedDict()
    for item in maps:
        if _known(item) is None:
            continue
        result.line = result.line or int(getattr(item, "line", 0))
        result.update(item)
        result.key_lines.update(getattr(item, "key_lines", {}))
    return result


def _concat(*lists: Any) -> LocatedList:
    result = LocatedList()
    for item in lists:
        result.extend(_known(item))
        result.item_lines.extend(getattr(item, "item_lines", []) or [0] * len(item))
    return result


def _flatten(value: Any) -> LocatedList:
    result = LocatedList()
    for item in _known(value):
        if isinstance(item, list):
            inner = _flatten(item)
            result.extend(inner)
            result.item_lines.extend(inner.item_lines)
        else:
            result.append(_known(item))
            result.item_lines.append(int(getattr(item, "line", 0)))
    return result


def _lookup(mapping: Any, key: Any, *default: Any) -> Any:
    if _known(key) in _known(mapping):
        return mapping[key]
    if default:
        return default[0]
    raise FunctionFailsError(f"no key {key!r}")


def _coalesce(*values: Any) -> Any:
    for value in values:
        if _known(value) is not None and value != "":
            return value
    raise FunctionFailsError("no argument is set")


def _coalescelist(*values: Any) -> Any:
    for value in values:
        if _known(value):
            return value
    raise FunctionFailsError("no list holds anything")


def _element(values: Any, index: Any) -> Any:
    return _known(values)[int(_known(index)) % len(values)]


def _one(values: Any) -> Any:
    if len(_known(values)) > 1:
        raise FunctionFailsError("more than one element")
    return values[0] if values else None


def _jsonencode(value: Any) -> Any:
    missing = next(find_unresolved(value), None)
    text = json.dumps(_with_gaps(value), separators=(",", ":"), sort_keys=True)
    return text if missing is None else Unresolved(missing.reason, text=text)


def _yamlencode(value: Any) -> Any:
    missing = next(find_unresolved(value), None)
    text = yaml.safe_dump(_with_gaps(value), default_flow_style=False)
    return text if missing is None else Unresolved(missing.reason, text=text)


def _with_gaps(value: Any) -> Any:
    if isinstance(value, Unresolved):
        return gap(value)
    if isinstance(value, dict):
        return {str(key): _with_gaps(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_gaps(item) for item in value]
    return value


def _decode(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    def decode(value: Any) -> Any:
        if isinstance(value, Unresolved) and value.text:
            try:
                return parse(value.text)
            except (ValueError, yaml.YAMLError):
                return Unresolved(value.reason)
        return parse(_known(value))

    return decode


def _yaml(text: str) -> Any:
    stream = read_yaml(text, "yamldecode()")
    if stream.problem is not None or len(stream.documents) > 1:
        raise FunctionFailsError("not one YAML document")
    return stream.documents[0] if stream.documents else None


def _keys(value: Any) -> list[Any]:
    return sorted(_known(value), key=str)


def _length(value: Any) -> int:
    return len(_known(value))


def _tolist(value: Any) -> list[Any]:
    return list(_known(value))


def _toset(value: Any) -> Any:
    items = [_known(item) for item in _known(value)]
    return _distinct(items) if any(isinstance(item, (dict, list)) for item in items) else sorted(set(items), key=str)


def _distinct(values: Any) -> list[Any]:
    return distinct(_known(values))


def _zipmap(keys: Any, values: Any) -> dict[Any, Any]:
    return dict(zip((_known(key) for key in _known(keys)), _known(values), strict=True))


def _compact(values: Any) -> list[Any]:
    return [value for value in _known(values) if _known(value) not in {None, ""}]


def _slice(values: Any, start: Any, end: Any) -> Any:
    return _known(values)[int(_known(start)) : int(_known(end))]


def _contains(values: Any, wanted: Any) -> Any:
    answers = [equal(value, wanted) for value in _known(values)]
    if True in answers:
        return True
    return next((answer for answer in answers if isinstance(answer, Unresolved)), False)


def _all(values: Any) -> Any:
    answers = [as_bool(value) for value in _known(values)]
    if False in answers:
        return False
    return next((answer for answer in answers if isinstance(answer, Unresolved)), True)


def _any(values: Any) -> Any:
    answers = [as_bool(value) for value in _known(values)]
    if True in answers:
        return True
    return next((answer for answer in answers if isinstance(answer, Unresolved)), False)


def _convert(converter: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else converter(value)


_KEEPING: dict[str, Callable[..., Any]] = {
    "merge": _merge,
    "concat": _concat,
    "flatten": _flatten,
    "lookup": _lookup,
    "coalesce": _coalesce,
    "coalescelist": _coalescelist,
    "element": _element,
    "one": _one,
    "jsonencode": _jsonencode,
    "yamlencode": _yamlencode,
    "jsondecode": _decode(json.loads),
    "yamldecode": _decode(_yaml),
    "keys": _keys,
    "values": lambda value: [value[key] for key in _keys(value)],
    "length": _length,
    "tolist": _tolist,
    "toset": _toset,
    "tomap": _known,
    "distinct": _distinct,
    "zipmap": _zipmap,
    "compact": _compact,
    "slice": _slice,
    "reverse": lambda values: list(reversed(_known(values))),
    "contains": _contains,
    "alltrue": _all,
    "anytrue": _any,
    "tostring": _convert(as_text),
    "tonumber": _convert(as_number),
    "tobool": _convert(as_bool),
    "sensitive": lambda value: value,
    "nonsensitive": lambda value: value,
    "ephemeralasnull": lambda value: value,
}
_PARTIAL = {name: _passing_unknown(function) for name, function in _KEEPING.items()}
