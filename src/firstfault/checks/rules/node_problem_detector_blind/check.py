"""Patterns of node-problem-detector, tried on the lines that the driver writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from firstfault.checks.gpu_operator import gpu_operators
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.prometheus import Document

_HEAD = "NVRM: Xid (PCI:0000:3b:00)"
_LINES = {
    48: f"{_HEAD}: 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected",
    74: f"{_HEAD}: 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 2(0x10000)",
    79: f"{_HEAD}: 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
}


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the monitors of the kernel log: one of them must see the XIDs that condemn a GPU."""
    monitors = [item for item in inventory.documents if _is_kernel_monitor(item)]
    about = [item for item in monitors if re.search(r"xid|nvrm|gpu", str(item.body), re.IGNORECASE)]
    judged = about or (monitors[:1] if inventory.gpu_pods or gpu_operators(inventory) else [])
    if not judged:
        return
    seen: set[int] = set()
    for item in judged:
        for pattern in _patterns(item):
            try:
                # The program appends the anchor of the end to each pattern.
                expression = re.compile(f"{pattern}\\Z")
            except re.error as error:
                yield unknown(item.place("rules"), _subject(item), f"the pattern {pattern!r} cannot be tried: {error}")
                return
            seen |= {code for code, line in _LINES.items() if expression.search(line)}
    missing = sorted(set(_LINES) - seen)
    first = judged[0]
    if missing:
        words = ", ".join(map(str, missing))
        yield failed(
            first.place("rules"), _subject(first), f"no pattern matches the kernel's line of XID {words} up to its end"
        )
    else:
        yield passed(first.place("rules"), _subject(first))


def _is_kernel_monitor(item: Document) -> bool:
    rules = item.body.get("rules")
    return item.body.get("plugin") in {"kmsg", "journald", "filelog"} and isinstance(rules, list)


def _patterns(item: Document) -> Iterator[str]:
    rules: Any = item.body.get("rules")
    for rule in rules:
        if isinstance(rule, dict) and isinstance(rule.get("pattern"), str):
            yield rule["pattern"]


def _subject(item: Document) -> str:
    return f"node-problem-detector/{item.body.get('source', '')}"
