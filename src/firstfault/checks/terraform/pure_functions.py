"""Terraform's functions of single values: text, numbers, sets, networks. Every argument is known here."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import itertools
import json
import math
import re
import urllib.parse
from collections.abc import Callable, Iterable
from typing import Any

from firstfault.checks.located import Unresolved
from firstfault.checks.terraform.safe_regex import compile_safely
from firstfault.checks.terraform.values import as_bool, as_number, as_text, equal

__all__ = ["MAX_RESULT", "TOTAL", "FunctionFailsError", "distinct"]

MAX_RESULT = 20_000


class FunctionFailsError(Exception):
    """The function would fail in Terraform, too."""


def distinct(values: list[Any]) -> list[Any]:
    """Return the values without repeats, in order."""
    result: list[Any] = []
    for value in values:
        if not any(equal(value, other) is True for other in result):
            result.append(value)
    return result


def _format(template: str, *values: Any) -> str:
    """`format` with the verbs that people use: %s %d %q %v %f %t %x %%, with width and precision."""
    supplied = iter(values)

    def replace(match: re.Match[str]) -> str:
        verb = match[2]
        if verb == "%":
            return "%"
        value = next(supplied)
        if verb == "q":
            return json.dumps(_text(value))
        if verb in "sv":
            text = _text(value) if not isinstance(value, (dict, list)) else json.dumps(value)
            return ("%" + match[1] + "s") % text
        if verb == "t":
            return _text(as_bool(value))
        number = as_number(value)
        if isinstance(number, Unresolved) or len(match[1]) > 6:
            raise FunctionFailsError("not a number")
        return ("%" + match[1] + verb) % (int(number) if verb in "dxXob" else number)

    return re.sub(r"%([-+ #0]*\d{0,3}(?:\.\d{1,3})?)([%sdqvftxX])", replace, template)


def _text(value: Any) -> str:
    text = as_text(value)
    if isinstance(text, Unresolved):
        raise FunctionFailsError(text.reason)
    return text


def _formatlist(template: str, *values: Any) -> list[str]:
    length = max(len(value) for value in values if isinstance(value, list))
    return [
        _format(template, *(value[index] if isinstance(value, list) else value for value in values))
        for index in range(length)
    ]


def _join(separator: str, *lists: Iterable[Any]) -> str:
    return separator.join(_text(item) for items in lists for item in items)


def _replace(text: str, search: str, new: str) -> str:
    if len(search) > 1 and search.startswith("/") and search.endswith("/"):
        return compile_safely(search[1:-1], text).sub(re.sub(r"\$\{?(\w+)\}?", r"\\g<\1>", new), text)
    return text.replace(search, new)


def _regex(pattern: str, text: str) -> Any:
    match = compile_safely(pattern, text).search(text)
    if match is None:
        raise FunctionFailsError("no match")
    return match.groupdict() or (list(match.groups()) if match.groups() else match[0])


def _regexall(pattern: str, text: str) -> list[Any]:
    return [
        match.groupdict() or (list(match.groups()) if match.groups() else match[0])
        for match in compile_safely(pattern, text).finditer(text)
    ]


def _substr(text: str, offset: int, length: int) -> str:
    start = offset if offset >= 0 else len(text) + offset
    return text[start:] if length < 0 else text[start : start + length]


def _range(*arguments: Any) -> list[Any]:
    start, stop = (0, arguments[0]) if len(arguments) == 1 else arguments[:2]
    step = arguments[2] if len(arguments) == 3 else (1 if stop >= start else -1)
    values = range(int(start), int(stop), int(step))
    if len(values) > MAX_RESULT:
        raise FunctionFailsError("longer than an audit evaluates")
    return list(values)


def _setproduct(*sets: list[Any]) -> list[list[Any]]:
    if math.prod(len(item) for item in sets) > MAX_RESULT:
        raise FunctionFailsError("larger than an audit evaluates")
    return [list(item) for item in itertools.product(*sets)]


def _cidrsubnet(prefix: str, bits: int, number: int) -> str:
    network = ipaddress.ip_network(prefix, strict=False)
    size = network.prefixlen + int(bits)
    if not 0 <= int(number) < 2 ** int(bits) or size > network.max_prefixlen:
        raise FunctionFailsError("no such subnet")
    base = int(network.network_address) + (int(number) << (network.max_prefixlen - size))
    return f"{ipaddress.ip_address(base)}/{size}"


def _cidrsubnets(prefix: str, *bits: int) -> list[str]:
    network = ipaddress.ip_network(prefix, strict=False)
    position, result = int(network.network_address), []
    for extra in bits:
        size = network.prefixlen + int(extra)
        step = 1 << (network.max_prefixlen - size)
        position = -(-position // step) * step
        result.append(f"{ipaddress.ip_address(position)}/{size}")
        position += step
    return result


def _cidrhost(prefix: str, number: int) -> str:
    network = ipaddress.ip_network(prefix, strict=False)
    return str(network[int(number)])


def _indent(spaces: int, text: str) -> str:
    return text.replace("\n", "\n" + " " * min(int(spaces), 200))


def _transpose(value: dict[str, list[str]]) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for key, items in value.items():
        for item in items:
            result.setdefault(item, []).append(key)
    return result


def _index(values: list[Any], wanted: Any) -> int:
    return next(index for index, value in enumerate(values) if equal(value, wanted) is True)


def _matchkeys(values: list[Any], keys: list[Any], wanted: list[Any]) -> list[Any]:
    return [value for value, key in zip(values, keys, strict=True) if key in wanted]


TOTAL: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "base64decode": lambda value: base64.b64decode(value, validate=True).decode(),
    "base64encode": lambda value: base64.b64encode(value.encode()).decode(),
    "ceil": math.ceil,
    "chomp": lambda value: value.rstrip("\r\n"),
    "chunklist": lambda values, size: [values[at : at + int(size)] for at in range(0, len(values), max(int(size), 1))],
    "cidrhost": _cidrhost,
    "cidrnetmask": lambda prefix: str(ipaddress.ip_network(prefix, strict=False).netmask),
    "cidrsubnet": _cidrsubnet,
    "cidrsubnets": _cidrsubnets,
    "endswith": lambda text, end: text.endswith(end),
    "floor": math.floor,
    "format": _format,
    "formatlist": _formatlist,
    "indent": _indent,
    "index": _index,
    "join": _join,
    "log": math.log,
    "lower": lambda text: text.lower(),
    "matchkeys": _matchkeys,
    "max": lambda *values: max(as_number(value) for value in values),  # type: ignore[type-var]
    "md5": lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
    "min": lambda *values: min(as_number(value) for value in values),  # type: ignore[type-var]
    "parseint": lambda text, base: int(text, int(base)),
    "pow": lambda base, power: base ** min(power, 64),
    "range": _range,
    "regex": _regex,
    "regexall": _regexall,
    "replace": _replace,
    "setintersection": lambda first, *rest: [item for item in first if all(item in other for other in rest)],
    "setproduct": _setproduct,
    "setsubtract": lambda first, second: [item for item in first if item not in second],
    "setunion": lambda *sets: distinct([item for items in sets for item in items]),
    "sha1": lambda text: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(),
    "sha256": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "signum": lambda value: (value > 0) - (value < 0),
    "sort": lambda values: sorted(_text(value) for value in values),
    "split": lambda separator, text: text.split(separator) if separator else list(text),
    "startswith": lambda text, start: text.startswith(start),
    "strcontains": lambda text, part: part in text,
    "strrev": lambda text: text[::-1],
    "substr": _substr,
    "sum": lambda values: sum(as_number(value) for value in values),
    "title": lambda text: re.sub(r"(^|\s)(\w)", lambda match: match[1] + match[2].upper(), text),
    "transpose": _transpose,
    "trim": lambda text, chars: text.strip(chars),
    "trimprefix": lambda text, prefix: text.removeprefix(prefix),
    "trimspace": lambda text: text.strip(),
    "trimsuffix": lambda text, suffix: text.removesuffix(suffix),
    "upper": lambda text: text.upper(),
    "urlencode": urllib.parse.quote_plus,
    "basename": lambda path: path.rstrip("/").rpartition("/")[2],
    "dirname": lambda path: path.rpartition("/")[0] or ".",
    "abspath": lambda path: path,
    "pathexpand": lambda path: path,
}
