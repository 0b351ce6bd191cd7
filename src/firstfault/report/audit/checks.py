"""What there is to say of the checks themselves: the list, and one check explained."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from firstfault.checks import Check

__all__ = ["explain_check", "list_checks"]

_WIDTH = 100
_EXAMPLE_LINES = 60


def list_checks(checks: Iterable[Check]) -> str:
    """Return the table of checks, one line each."""
    rows = [
        (check.info.id, check.info.layer, check.info.severity, ",".join(check.info.checklist), check.info.title)
        for check in checks
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]).rstrip()
        for row in rows
    )


def explain_check(check: Check) -> str:
    """Return everything that is known about a check, with an example of each side."""
    info = check.info
    lines = [f"{info.id}: {info.title}", f"layer {info.layer} · severity {info.severity}", ""]
    for title, text in (("why", info.why), ("the trap", info.trap), ("fix", info.fix)):
        lines.extend([f"{title}:", *_wrapped(text), ""])
    lines.append(f"checklist: {', '.join(info.checklist) or '-'} · prevents: {', '.join(info.prevents) or '-'}")
    lines.extend(f"see {reference}" for reference in info.references)
    lines.extend(["", "example that fails:", *_example(check.example("bad"))])
    lines.extend(["", "example that passes:", *_example(check.example("good"))])
    return "\n".join(lines)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _example(files: list[tuple[str, str]]) -> Iterator[str]:
    for name, text in files:
        yield f"  # {name}"
        lines = text.splitlines()
        yield from (f"  {line}".rstrip() for line in lines[:_EXAMPLE_LINES])
        if len(lines) > _EXAMPLE_LINES:
            yield f"  … {len(lines) - _EXAMPLE_LINES} more lines"
