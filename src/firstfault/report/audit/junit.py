"""The audit report as JUnit XML: one suite for each layer, one case for each thing that a check judged."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping

from firstfault.model.audit import AuditReport, Finding

__all__ = ["render_junit"]

# XML 1.0 has no place for most control characters, not even escaped.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(report: AuditReport, _texts: Mapping[str, str]) -> str:
    """Return the report as JUnit XML. Unknown and suppressed results are skipped cases with the reason."""
    root = ET.Element("testsuites", name="firstfault audit")
    layers: dict[str, list[Finding]] = {}
    for finding in report.findings:
        layers.setdefault(finding.layer, []).append(finding)
    for layer, findings in sorted(layers.items()):
        failures = sum(item.result == "fail" and not item.suppressed for item in findings)
        skipped = sum(item.suppressed or item.result == "unknown" for item in findings)
        suite = ET.SubElement(
            root, "testsuite", name=layer, tests=str(len(findings)), failures=str(failures), errors="0",
            skipped=str(skipped),
        )  # fmt: skip
        for finding in findings:
            _case(suite, finding)
    if report.problems:
        suite = ET.SubElement(
            root, "testsuite", name="inputs", tests=str(len(report.problems)), failures="0",
            errors=str(len(report.problems)), skipped="0",
        )  # fmt: skip
        for problem in report.problems:
            case = ET.SubElement(suite, "testcase", classname="inputs", name=_clean(f"{problem.path}:{problem.line}"))
            ET.SubElement(case, "error", message=_clean(problem.message), type="unreadable")
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _case(suite: ET.Element, finding: Finding) -> None:
    where = _clean(f"{finding.path}:{finding.line}")
    case = ET.SubElement(
        suite, "testcase", classname=finding.check, name=_clean(f"{finding.subject} ({where})"),
        file=_clean(finding.path), line=str(finding.line),
    )  # fmt: skip
    message = _clean(finding.message)
    if finding.suppressed:
        ET.SubElement(case, "skipped", message=_clean(f"suppressed: {finding.suppressed_because}"))
    elif finding.result == "unknown":
        ET.SubElement(case, "skipped", message=f"unknown: {message}")
    elif finding.result == "fail":
        failure = ET.SubElement(case, "failure", message=message, type=finding.severity)
        failure.text = _clean(f"{where}\n{finding.message}\nfix: {finding.fix}")


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
