"""Scenario files as text or JSON: what lint found in them, and where a new one was written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from firstfault.report.triage import harmless, safe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["Linted", "render_lint", "render_new"]


class Linted(msgspec.Struct, frozen=True, kw_only=True):
    """What lint says about one scenario file.

    Attributes:
        file: Its path, as it was given.
        problems: What is wrong in it, one sentence each.
        unreadable: Why it could not be read as a scenario at all; "" when it could.
    """

    file: str
    problems: list[str] = []
    unreadable: str = ""

    @property
    def result(self) -> Literal["valid", "problems", "unreadable"]:
        """The whole in one word."""
        if self.unreadable:
            return "unreadable"
        return "problems" if self.problems else "valid"


def render_lint(found: Sequence[Linted], format_: str) -> str:
    """Render what lint found; `format_` is "text" or "json". Unreadable files are for standard error in text."""
    if format_ == "json":
        files = [{"file": each.file, "result": each.result, **_details(each)} for each in found]
        return _json({"schema": "firstfault.drill-lint/1", "files": files})
    lines = [f"{each.file}: {problem}" for each in found for problem in each.problems]
    good = sum(each.result == "valid" for each in found)
    return "\n".join([*map(safe, lines), f"{good} of {len(found)} valid"])


def _details(linted: Linted) -> dict[str, object]:
    return {"problems": [*linted.problems, *filter(None, [linted.unreadable])]}


def render_new(file: Path, format_: str) -> str:
    """Say where a new scenario was written and what comes next."""
    commands = [f"firstfault drill {verb} {file}" for verb in ("lint", "plan", "run")]
    if format_ == "json":
        return _json({"schema": "firstfault.drill-new/1", "file": str(file), "next": commands})
    return safe(f"{file}: edit it, then `{commands[0]}` and `{commands[2]}`")


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(harmless(value)), indent=2).decode()
