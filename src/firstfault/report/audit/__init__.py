"""The audit report in the forms that people and programs read."""

from __future__ import annotations

from firstfault.report.audit.checks import CheckDetails, CheckList, explain_check, list_checks
from firstfault.report.audit.render import FORMATS, render_audit

__all__ = ["FORMATS", "CheckDetails", "CheckList", "explain_check", "list_checks", "render_audit"]
