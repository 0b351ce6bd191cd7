"""The audit report as SARIF 2.1.0, in the subset that GitHub code scanning reads.

Results are the open and the suppressed findings (with their suppressions); passes are left out, because readers that do
not know `kind` would show them as alerts. Unreadable inputs are notifications of the invocation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from firstfault._version import __version__
from firstfault.checks import Check, load_checks
from firstfault.model.audit import AuditReport, Finding, ReadProblem, Severity

__all__ = ["CHECK_PAGES", "SCHEMA_URI", "render_sarif", "to_uri"]

SCHEMA_URI: Final = "https://json.schemastore.org/sarif-2.1.0.json"
CHECK_PAGES: Final = "https://github.com/firstfault/firstfault/blob/main/docs/checks"
_LEVELS: dict[Severity, str] = {"critical": "error", "high": "error", "medium": "warning", "low": "note"}
# GitHub sorts alerts by this number: https://docs.github.com/en/code-security/code-scanning (SARIF support).
_SCORES: dict[Severity, str] = {"critical": "9.5", "high": "8.0", "medium": "5.5", "low": "2.0"}
_FINGERPRINT = "firstfaultAudit/v1"


def render_sarif(report: AuditReport, _texts: Mapping[str, str]) -> str:
    """Return the report as a SARIF log."""
    known = load_checks()
    rules = [known[item.check] for item in report.checks if item.check in known]
    index = {check.info.id: number for number, check in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": "firstfault",
                "semanticVersion": __version__,
                "informationUri": "https://github.com/firstfault/firstfault",
                "rules": [_rule(check) for check in rules],
            }
        },
        "automationDetails": {"id": "firstfault-audit/"},
        "columnKind": "utf16CodeUnits",
        "invocations": [_invocation(report.problems)],
        "results": [_result(item, index) for item in report.findings if item.result != "pass"],
    }
    log = {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(log), indent=2).decode()


def to_uri(path: str) -> str:
    """Return a path as a URI: relative where the path is, percent-encoded."""
    encoded = quote(path, safe="/~@!$&'()*+,;=")
    return f"file://{encoded}" if path.startswith("/") else encoded


def _rule(check: Check) -> dict[str, Any]:
    info = check.info
    page = f"{CHECK_PAGES}/{info.id}.md"
    why, trap, fix = (" ".join(text.split()) for text in (info.why, info.trap, info.fix))
    return {
        "id": info.id,
        "name": "".join(part.capitalize() for part in info.id.split("-")),
        "shortDescription": {"text": info.title},
        "fullDescription": {"text": why},
        "helpUri": page,
        "help": {
            "text": f"{why}\n\nThe trap: {trap}\n\nFix: {fix}\n\n{page}",
            "markdown": f"{why}\n\n**The trap.** {trap}\n\n**Fix.** {fix}\n\n[{info.id}]({page})",
        },
        "defaultConfiguration": {"level": _LEVELS[info.severity]},
        "properties": {
            "tags": [info.layer, *info.checklist],
            "precision": "high",
            "problem.severity": {"error": "error", "warning": "warning", "note": "recommendation"}[
                _LEVELS[info.severity]
            ],
            "security-severity": _SCORES[info.severity],
        },
    }


def _result(finding: Finding, index: Mapping[str, int]) -> dict[str, Any]:
    failed = finding.result == "fail"
    text = f"{finding.message} ({finding.subject})"
    if finding.fix:
        text += f"\nFix: {finding.fix}"
    result: dict[str, Any] = {
        "ruleId": finding.check,
        "kind": "fail" if failed else "review",
        "level": _LEVELS[finding.severity] if failed else "none",
        "message": {"text": text},
        "locations": [
            {
                "physicalLocation": _location(finding.path, finding.line, finding.end_line),
                "logicalLocations": [{"fullyQualifiedName": finding.subject}],
            }
        ],
        "partialFingerprints": {_FINGERPRINT: finding.fingerprint},
    }
    if finding.check in index:
        result["ruleIndex"] = index[finding.check]
    if finding.suppressed:
        kind = "inSource" if finding.suppressed_in == "file" else "external"
        result["suppressions"] = [{"kind": kind, "status": "accepted", "justification": finding.suppressed_because}]
    return result


def _location(path: str, line: int, end_line: int) -> dict[str, Any]:
    region = {"startLine": max(line, 1), "endLine": max(end_line, line, 1)}
    return {"artifactLocation": {"uri": to_uri(path)}, "region": region}


def _invocation(problems: Iterable[ReadProblem]) -> dict[str, Any]:
    notifications = [
        {
            "level": "error",
            "message": {"text": problem.message},
            "locations": [{"physicalLocation": _location(problem.path, problem.line, problem.line)}],
        }
        for problem in problems
    ]
    return {"executionSuccessful": not notifications, "toolExecutionNotifications": notifications}
