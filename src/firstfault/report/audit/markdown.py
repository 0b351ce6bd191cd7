"""The audit report as Markdown: a summary for pull requests and job summaries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from firstfault.model.audit import AuditReport, Finding
from firstfault.report.audit.sarif import CHECK_PAGES, to_uri
from firstfault.report.audit.text import printable

__all__ = ["render_markdown"]

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_MOST = 200


def render_markdown(report: AuditReport, _texts: Mapping[str, str]) -> str:
    """Return the report as Markdown. Text of the inputs is escaped: it cannot add links, HTML or mentions."""
    summary = report.summary
    lines = [
        "## firstfault audit",
        "",
        (
            f"**{summary.failed} open**, {summary.unknown} unknown, {summary.suppressed} suppressed, "
            f"{summary.passed} passed, in {summary.files} files."
        ),
        "",
    ]
    open_findings = [item for item in report.findings if item.result != "pass" and not item.suppressed]
    if open_findings:
        lines.extend(["| result | severity | check | where | what | fix |", "| --- | --- | --- | --- | --- | --- |"])
        lines.extend(_row(item) for item in open_findings[:_MOST])
        if len(open_findings) > _MOST:
            lines.append(f"\n… and {len(open_findings) - _MOST} more.")
        lines.append("")
    lines.extend(_rest(report))
    return "\n".join(lines)


def _row(finding: Finding) -> str:
    where = f"[{_escaped(finding.path)}:{finding.line}]({to_uri(finding.path)}#L{finding.line})"
    check = f"[{finding.check}]({CHECK_PAGES}/{finding.check}.md)"
    cells = [
        finding.result, finding.severity, check, where, f"{_escaped(finding.subject)}: {_escaped(finding.message)}",
        _escaped(finding.fix),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _rest(report: AuditReport) -> Iterator[str]:
    yield from (f"- unreadable: {_escaped(problem.message)}" for problem in report.problems)
    for note in report.suppression_notes:
        yield f"- suppression of {_escaped(note.check)} at {_escaped(note.path)}:{note.line}: {_escaped(note.why)}"
    yield from (f"- {_escaped(note)}" for note in report.notes)


def _escaped(text: str) -> str:
    flat = printable(" ".join(text.split()))
    return _SPECIAL.sub(r"\\\1", flat).replace("@", "@\u200b")
