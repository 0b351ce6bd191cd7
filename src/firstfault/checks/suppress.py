"""Suppressions: somebody accepts a finding, says why, and until when. Three places: file comment, config, baseline.

A comment holds for the line it stands on, for the line below its block of comments, and for everything of the object
or block that starts there. A suppression without a reason, past its date, or matching nothing is reported itself.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from firstfault.model.audit import Finding, SuppressionNote

__all__ = ["Suppression", "apply_suppressions", "comments_in"]

_MARK = "firstfault:ignore="
_COMMENT = re.compile(r"(?P<before>.*?)(?:#|//)\s*firstfault:ignore=(?P<ids>[\w*,.-]+)(?P<rest>.*)$")
_UNTIL = re.compile(r"\buntil=(\S+)")


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """One accepted finding, or a family of them.

    Attributes:
        check: Check id or glob.
        path: Glob over the finding's path; for comments the file itself.
        subject: Glob over the finding's subject.
        fingerprint: Exact fingerprint (baseline only).
        reason: Why it is accepted; must not be empty.
        until: Last day on which it holds; None for always.
        where: file · config · baseline.
        at: File of the suppression itself.
        line: Line of the suppression itself.
        first: For comments: first line of the passage that it covers.
        last: For comments: last line of the passage; 0: the line `first` alone and the object that starts there.
        problem: Why it does not count whatever it matches (an unreadable date).
    """

    check: str
    path: str = "*"
    subject: str = "*"
    fingerprint: str = ""
    reason: str = ""
    until: dt.date | None = None
    where: Literal["file", "config", "baseline"] = "config"
    at: str = ""
    line: int = 1
    first: int = 0
    problem: str = ""

    def covers(self, finding: Finding, scope_line: int) -> bool:
        """Tell whether it is about this finding; `scope_line` is where the finding's object or block starts."""
        if self.fingerprint:
            return self.fingerprint == finding.fingerprint
        if not fnmatchcase(finding.check, self.check):
            return False
        if self.where == "file":
            return self.path == finding.path and self.first in {finding.line, scope_line}
        return fnmatchcase(finding.path, self.path) and fnmatchcase(finding.subject, self.subject)


def comments_in(path: str, text: str) -> list[Suppression]:
    """Return the suppressions written as comments in a file."""
    if _MARK not in text:
        return []
    lines = text.splitlines()
    found: list[Suppression] = []
    for number, line in enumerate(lines, 1):
        match = _COMMENT.match(line) if _MARK in line else None
        if match is None:
            continue
        alone = not match["before"].strip()
        covered = _next_code_line(lines, number) if alone else number
        reason, until, problem = _reason_and_date(match["rest"])
        found.extend(
            Suppression(
                check=check, path=path, reason=reason, until=until, where="file", at=path, line=number, first=covered,
                problem=problem,
            )
            for check in match["ids"].split(",")
            if check
        )  # fmt: skip
    return found


def _next_code_line(lines: list[str], number: int) -> int:
    """Return the number of the first line below line `number` that is neither blank, comment nor document start."""
    for index in range(number, len(lines)):
        text = lines[index].strip()
        if text and not text.startswith(("#", "//", "---")):
            return index + 1
    return number


def _reason_and_date(rest: str) -> tuple[str, dt.date | None, str]:
    match = _UNTIL.search(rest)
    reason = _UNTIL.sub("", rest).strip(" \t:-*/")
    if match is None:
        return reason, None, ""
    try:
        return reason, dt.date.fromisoformat(match[1]), ""
    except ValueError:
        return reason, None, f"until={match[1]} is not a date (YYYY-MM-DD)"


def apply_suppressions(
    findings: Iterable[tuple[Finding, int]], suppressions: list[Suppression], today: dt.date, ran: set[str]
) -> tuple[list[Finding], list[SuppressionNote]]:
    """Mark the findings that are suppressed, and report the suppressions that did nothing.

    Args:
        findings: Findings, each with the line where its object or block starts.
        suppressions: Of all three places.
        today: The day on which `until` is judged (inclusive).
        ran: Ids of the checks that ran; a suppression of another check is not called unmatched.
    """
    used: set[int] = set()
    result = []
    for finding, scope_line in findings:
        marked = finding
        if finding.result != "pass":
            for index, item in enumerate(suppressions):
                if item.covers(finding, scope_line):
                    used.add(index)
                    if not _why_void(item, today):
                        marked = msgspec.structs.replace(
                            finding, suppressed=True, suppressed_because=item.reason, suppressed_in=item.where
                        )
                        break
        result.append(marked)
    notes = []
    for index, item in enumerate(suppressions):
        why = _why_void(item, today)
        if not why and index not in used and any(fnmatchcase(check, item.check) for check in ran):
            why = "it matches no finding: remove it, or correct what it names"
        if not why and not any(fnmatchcase(check, item.check) for check in ran) and item.where != "baseline":
            why = "no check of that id ran"
        if why:
            notes.append(SuppressionNote(check=item.check, path=item.at, line=item.line, why=why))
    return result, notes


def _why_void(item: Suppression, today: dt.date) -> str:
    if item.problem:
        return item.problem
    if not item.reason:
        return "it gives no reason: write why the finding is accepted"
    if item.until is not None and item.until < today:
        return f"it expired on {item.until.isoformat()}: close the hole, or give a new date with a reason"
    return ""
