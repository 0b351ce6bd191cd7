"""What the configuration inside a plan says: which security groups write their rules in blocks of their own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["inline_configured", "plain_address"]

_INDEX = re.compile(r"\[(?:\"(?:[^\"\\]|\\.)*\"|\d+)\]")


def plain_address(change: dict[str, Any]) -> str:
    """Return a change's address without the indices of count and for_each, as the configuration has it."""
    return _INDEX.sub("", change["address"])


def inline_configured(data: dict[str, Any]) -> set[tuple[str, str]]:
    """Return (plain address, "ingress" or "egress") for the security groups whose configuration has such blocks."""
    configuration = data.get("configuration")
    root = configuration.get("root_module") if isinstance(configuration, dict) else None
    return set(_walk(root, ""))


def _walk(module: Any, path: str) -> Iterator[tuple[str, str]]:
    if not isinstance(module, dict):
        return
    resources = module.get("resources")
    for resource in resources if isinstance(resources, list) else []:
        expressions = resource.get("expressions") if isinstance(resource, dict) else None
        if isinstance(expressions, dict):
            for direction in ("ingress", "egress"):
                if direction in expressions:
                    yield f"{path}{resource.get('type')}.{resource.get('name')}", direction
    calls = module.get("module_calls")
    for name, call in calls.items() if isinstance(calls, dict) else ():
        if isinstance(call, dict):
            yield from _walk(call.get("module"), f"{path}module.{name}.")
