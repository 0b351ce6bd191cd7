"""What there is to say of the checks themselves: the list, and one check explained."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from firstfault.checks import Check, CheckInfo
from firstfault.model.audit import Severity

__all__ = ["CheckDetails", "CheckList", "CheckRow", "explain_check", "list_checks"]

LIST_SCHEMA = "firstfault.audit-checks/1"
CHECK_SCHEMA = "firstfault.audit-check/1"
_WIDTH = 100
_EXAMPLE_LINES = 60


class CheckRow(msgspec.Struct, frozen=True, kw_only=True):
    """A check in the list of all. The fields mean what they mean in audit's report."""

    check: str
    title: str
    layer: str
    severity: Severity
    checklist: list[str]


class CheckList(msgspec.Struct, frozen=True, kw_only=True):
    """What `audit --list-checks` prints.

    Attributes:
        checks: By id.
        schema: Version of this format.
    """

    checks: list[CheckRow]
    schema: str = LIST_SCHEMA


class ExampleFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of an example, whole."""

    file: str
    text: str


class CheckDetails(CheckRow, frozen=True, kw_only=True):
    """What `audit --explain CHECK` prints.

    Attributes:
        why: What happens when the hole is open.
        trap: What a text search or a reviewer gets wrong.
        fix: The change that closes the hole.
        prevents: Causes, as `explain` knows them, that it would have prevented or made visible.
        reads: The kinds of input that it judges.
        references: Documents, sources and issue threads.
        fails: An example with the hole.
        passes: An example without it.
        schema: Version of this format.
    """

    why: str
    trap: str
    fix: str
    prevents: list[str]
    reads: list[str]
    references: list[str]
    fails: list[ExampleFile]
    passes: list[ExampleFile]
    schema: str = CHECK_SCHEMA


def list_checks(checks: Iterable[Check], form: str) -> str:
    """Return the table of checks, one line each; `form` is "text" or "json"."""
    if form == "json":
        return _json(CheckList(checks=[CheckRow(**_head(check.info)) for check in checks]))
    rows = [
        (check.info.id, check.info.layer, check.info.severity, ",".join(check.info.checklist), check.info.title)
        for check in checks
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]).rstrip()
        for row in rows
    )


def explain_check(check: Check, form: str) -> str:
    """Return everything that is known about a check, with an example of each side; `form` is "text" or "json"."""
    if form == "json":
        return _json(_details(check))
    info = check.info
    lines = [f"{info.id}: {info.title}", f"layer {info.layer} · severity {info.severity}", ""]
    for title, text in (("why", info.why), ("the trap", info.trap), ("fix", info.fix)):
        lines.extend([f"{title}:", *_wrapped(text), ""])
    lines.append(f"checklist: {', '.join(info.checklist) or '-'} · prevents: {', '.join(info.prevents) or '-'}")
    lines.extend(f"see {reference}" for reference in info.references)
    lines.extend(["", "example that fails:", *_example(check.example("bad"))])
    lines.extend(["", "example that passes:", *_example(check.example("good"))])
    return "\n".join(lines)


def _head(info: CheckInfo) -> dict[str, Any]:
    return {
        "check": info.id, "title": info.title, "layer": info.layer, "severity": info.severity,
        "checklist": info.checklist,
    }  # fmt: skip


def _details(check: Check) -> CheckDetails:
    info = check.info
    fails, passes = (
        [ExampleFile(file=name, text=text) for name, text in check.example(kind)] for kind in ("bad", "good")
    )
    return CheckDetails(
        **_head(info),
        why=" ".join(info.why.split()),
        trap=" ".join(info.trap.split()),
        fix=" ".join(info.fix.split()),
        prevents=info.prevents,
        reads=list(info.reads),
        references=info.references,
        fails=fails,
        passes=passes,
    )


def _json(value: CheckList | CheckDetails) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _example(files: list[tuple[str, str]]) -> Iterator[str]:
    for name, text in files:
        yield f"  # {name}"
        lines = text.splitlines()
        yield from (f"  {line}".rstrip() for line in lines[:_EXAMPLE_LINES])
        if len(lines) > _EXAMPLE_LINES:
            yield f"  … {len(lines) - _EXAMPLE_LINES} more lines"
