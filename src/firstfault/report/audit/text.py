"""The audit report for the terminal: each open finding with the lines it is about and the change that closes it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from firstfault.model.audit import AuditReport, Finding
from firstfault.model.safe_text import safe_text

__all__ = ["printable", "render_text"]

_WIDTH = 110
_FRAME_LINES = 6
_CONTEXT = 1


def printable(text: str) -> str:
    """Return text of the inputs as one line that is safe to print."""
    return safe_text(" ".join(text.splitlines()))


def render_text(report: AuditReport, texts: Mapping[str, str]) -> str:
    """Return the report as plain text."""
    lines: list[str] = []
    sources = _Sources(texts)
    for finding in report.findings:
        if finding.result != "pass" and not finding.suppressed:
            lines.extend(_finding(finding, sources))
            lines.append("")
    lines.extend(f"unreadable: {printable(problem.message)}" for problem in report.problems)
    lines.extend(
        f"suppression of {printable(note.check)} at {printable(note.path)}:{note.line}: {note.why}"
        for note in report.suppression_notes
    )
    lines.extend(f"note: {printable(note)}" for note in report.notes)
    if lines and lines[-1]:
        lines.append("")
    lines.append(_summary(report))
    # Once more over the whole: wrapping may have put something at the beginning of a line.
    return safe_text("\n".join(lines))


class _Sources:
    """The lines of each file, split once however many findings the file has."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._lines: dict[str, list[str]] = {}

    def lines(self, path: str) -> list[str]:
        if path not in self._lines:
            self._lines[path] = self._texts.get(path, "").splitlines()
        return self._lines[path]


def _finding(finding: Finding, sources: _Sources) -> Iterator[str]:
    head = f"{finding.result.upper()} {finding.severity} {finding.check} [{finding.layer}]"
    yield f"{head}  {printable(finding.path)}:{finding.line}"
    yield f"  {printable(finding.subject)}"
    yield from _wrapped(printable(finding.message), "  ")
    yield from _frame(finding, sources.lines(finding.path))
    if finding.fix:
        yield from _wrapped(f"fix: {printable(finding.fix)}", "  ")


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False)


def _frame(finding: Finding, lines: list[str]) -> Iterator[str]:
    """Yield the source lines around the finding, the finding's own marked."""
    if not lines:
        return
    first = max(finding.line - _CONTEXT, 1)
    last = min(max(finding.line + _CONTEXT, min(finding.end_line, first + _FRAME_LINES - 1)), len(lines))
    width = len(str(last))
    for number in range(first, last + 1):
        mark = ">" if number == finding.line else " "
        yield f"  {mark} {number:>{width}} | {printable(lines[number - 1])[:_WIDTH]}"


def _summary(report: AuditReport) -> str:
    summary = report.summary
    applied = len(report.checks) - summary.not_applicable
    parts = [f"{summary.failed} open", f"{summary.unknown} unknown", f"{summary.passed} passed"]
    if summary.suppressed:
        parts.append(f"{summary.suppressed} suppressed")
    tail = f"{applied} of {len(report.checks)} checks apply to {summary.files} file{'s' * (summary.files != 1)}"
    return f"{' · '.join(parts)} ({tail})"
