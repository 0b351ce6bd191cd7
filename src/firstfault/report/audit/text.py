"""The audit report for the terminal: each open finding with the lines it is about and the change that closes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from firstfault.model.audit import AuditReport, Finding
from firstfault.model.safe_text import safe_text
from firstfault.report.page import Page

__all__ = ["printable", "render_text"]

_WIDTH = 110
_FRAME_LINES = 6
_CONTEXT = 1


def printable(text: str) -> str:
    """Return text of the inputs as one line that is safe to print."""
    return safe_text(" ".join(text.splitlines()))


def render_text(report: AuditReport, texts: Mapping[str, str], *, width: int | None = None) -> str:
    """Return the report as plain text; `width` is that of the terminal, None where there is none."""
    page = Page(width, prose=_WIDTH)
    lines: list[str] = []
    sources = _Sources(texts)
    for finding in report.findings:
        if finding.result != "pass" and not finding.suppressed:
            lines.extend(_finding(page, finding, sources))
            lines.append("")
    remarks = [f"unreadable: {printable(problem.message)}" for problem in report.problems]
    remarks += [
        f"suppression of {printable(note.check)} at {printable(note.path)}:{note.line}: {note.why}"
        for note in report.suppression_notes
    ]
    remarks += [f"note: {printable(note)}" for note in report.notes]
    lines.extend(line for remark in remarks for line in page.row(remark))
    if lines and lines[-1]:
        lines.append("")
    lines.extend(page.row(_summary(report)))
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


def _finding(page: Page, finding: Finding, sources: _Sources) -> Iterator[str]:
    head = f"{finding.result.upper()} {finding.severity} {finding.check} [{finding.layer}]"
    yield from page.row(f"{head}  {printable(finding.path)}:{finding.line}")
    yield from page.row(printable(finding.subject), "  ")
    yield from page.prose(printable(finding.message), "  ")
    yield from _frame(page, finding, sources.lines(finding.path))
    if finding.fix:
        yield from page.prose(f"fix: {printable(finding.fix)}", "  ")


def _frame(page: Page, finding: Finding, lines: list[str]) -> Iterator[str]:
    """Yield the source lines around the finding, the finding's own marked."""
    if not lines:
        return
    first = max(finding.line - _CONTEXT, 1)
    last = min(max(finding.line + _CONTEXT, min(finding.end_line, first + _FRAME_LINES - 1)), len(lines))
    width = len(str(last))
    for number in range(first, last + 1):
        mark = ">" if number == finding.line else " "
        text = printable(lines[number - 1])
        shown = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
        yield from page.row(f"{mark} {number:>{width}} | {shown}", "  ")


def _summary(report: AuditReport) -> str:
    summary = report.summary
    applied = len(report.checks) - summary.not_applicable
    parts = [f"{summary.failed} open", f"{summary.unknown} unknown", f"{summary.passed} passed"]
    if summary.suppressed:
        parts.append(f"{summary.suppressed} suppressed")
    tail = f"{applied} of {len(report.checks)} checks apply to {summary.files} file{'s' * (summary.files != 1)}"
    return f"{' · '.join(parts)} ({tail})"
