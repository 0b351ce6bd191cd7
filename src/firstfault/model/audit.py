"""The report of `firstfault audit` (schema "firstfault.audit/1"). Field meanings are part of the JSON contract."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "SCHEMA",
    "AuditReport",
    "AuditSummary",
    "CheckSummary",
    "Finding",
    "ReadProblem",
    "Result",
    "Severity",
    "SuppressionNote",
]

SCHEMA = "firstfault.audit/1"

Result = Literal["pass", "fail", "unknown"]
Severity = Literal["critical", "high", "medium", "low"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one check says about one thing.

    Attributes:
        check: Check id.
        layer: Layer of the checklist that the check belongs to.
        result: pass · fail · unknown (the value that decides could not be resolved; `message` says why).
        message: One or two sentences, with the values that decided.
        path: File, relative to the working directory where it lies below it; "/" as separator.
        line: First line, from 1.
        end_line: Last line of the passage that a person has to read.
        subject: What was judged: a Terraform address, `Kind/namespace/name`, a rule's name.
        fix: The change that closes the hole; empty unless result is fail.
        suppressed: True when somebody accepted it; `suppressed_because` holds the reason.
        fingerprint: Same for the same finding after lines moved or files were reformatted.
    """

    check: str
    layer: str
    result: Result
    severity: Severity
    message: str
    path: str
    line: int
    end_line: int
    subject: str
    fix: str = ""
    suppressed: bool = False
    suppressed_because: str = ""
    suppressed_in: Literal["", "file", "config", "baseline"] = ""
    fingerprint: str = ""


class ReadProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One input, or part of one, that could not be read. The others were audited all the same."""

    path: str
    line: int
    message: str


class SuppressionNote(msgspec.Struct, frozen=True, kw_only=True):
    """A suppression that did nothing: expired, without a reason, or matching no finding."""

    check: str
    path: str
    line: int
    why: str


class CheckSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one check over all inputs. `not applicable`: nothing in the inputs that it judges."""

    check: str
    title: str
    layer: str
    severity: Severity
    checklist: list[str]
    outcome: Literal["pass", "fail", "unknown", "suppressed", "not applicable"]


class AuditSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over the findings. Suppressed findings are counted only in `suppressed`."""

    passed: int
    failed: int
    unknown: int
    suppressed: int
    not_applicable: int
    files: int


class AuditReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that audit says. The same inputs and the same date give the same report."""

    schema: str = SCHEMA
    findings: list[Finding]
    summary: AuditSummary
    checks: list[CheckSummary]
    problems: list[ReadProblem] = []
    suppression_notes: list[SuppressionNote] = []
    notes: list[str] = []
