"""Chooses the writer of an audit report by the name of its format."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from firstfault.model.audit import AuditReport
from firstfault.report.audit.junit import render_junit
from firstfault.report.audit.markdown import render_markdown
from firstfault.report.audit.sarif import render_sarif
from firstfault.report.audit.text import render_text

__all__ = ["FORMATS", "render_audit"]

_Writer = Callable[[AuditReport, Mapping[str, str]], str]


def _json(report: AuditReport, _texts: Mapping[str, str]) -> str:
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


_WRITERS: dict[str, _Writer] = {
    "text": render_text,
    "json": _json,
    "sarif": render_sarif,
    "junit": render_junit,
    "markdown": render_markdown,
}
FORMATS = tuple(_WRITERS)


def render_audit(report: AuditReport, texts: Mapping[str, str], form: str, *, width: int | None = None) -> str:
    """Return the report as text of one of `FORMATS`.

    Args:
        texts: Text of each audited file by the path used in the report (code frames); may be empty.
        form: One of `FORMATS`.
        width: Columns of the terminal that the text is for; None for a file or a pipe.
    """
    if form == "text":
        return render_text(report, texts, width=width)
    return _WRITERS[form](report, texts)
