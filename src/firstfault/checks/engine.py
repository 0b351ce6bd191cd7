"""Runs the checks over an inventory and makes the report."""

from __future__ import annotations

import datetime as dt
import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from firstfault.checks.config import AuditConfig, load_config
from firstfault.checks.edits import Edit
from firstfault.checks.guarded import run_guarded
from firstfault.checks.inventory import Inventory
from firstfault.checks.load import load_inventory
from firstfault.checks.outcome import Outcome
from firstfault.checks.registry import Check, find_check, load_checks
from firstfault.checks.suppress import Suppression, apply_suppressions, comments_in
from firstfault.errors import ExitCode, InputError, worst_exit_code
from firstfault.model.audit import AuditReport, AuditSummary, CheckSummary, Finding, Severity, SuppressionNote

__all__ = [
    "SEVERITIES",
    "audit",
    "audit_inventory",
    "audit_with_inventory",
    "exit_code_of",
    "run_checks",
    "run_outcomes",
]

SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low")
_RESULT_ORDER = {"fail": 0, "unknown": 1, "pass": 2}


def audit(
    paths: Sequence[str | Path],
    *,
    checks: Sequence[str] = (),
    config: AuditConfig | None = None,
    baseline: Sequence[Suppression] = (),
    complete: bool = False,
    today: dt.date | None = None,
) -> AuditReport:
    """Audit files and folders: Terraform, plans, manifests, rules, policies, in any mixture.

    Nothing of the inputs is executed and nothing is fetched.

    Args:
        paths: Files and folders; "-" is standard input.
        checks: Ids of the checks to run; none means all.
        config: Configuration; None reads firstfault.toml beside the inputs or in the working directory.
        baseline: Suppressions of a baseline file.
        complete: The inputs are everything there is: judge what is absent from them.
        today: The day on which expiry dates are judged; None is the current UTC day.

    Raises:
        UsageError: A path or a check does not exist.
        InputError: The configuration is not valid, or nothing among the inputs can be audited.
    """
    return audit_with_inventory(paths, checks=checks, config=config, baseline=baseline, complete=complete, today=today)[
        0
    ]


def audit_with_inventory(
    paths: Sequence[str | Path],
    *,
    checks: Sequence[str] = (),
    config: AuditConfig | None = None,
    baseline: Sequence[Suppression] = (),
    complete: bool = False,
    today: dt.date | None = None,
) -> tuple[AuditReport, Inventory]:
    """Do what `audit` does, and return the inventory too: reports show lines of its texts.

    Raises:
        UsageError: As `audit`.
        InputError: As `audit`.
    """
    given = [Path(path) for path in paths]
    if config is None:
        config = load_config(None, near=[path for path in given if path.is_dir()])
    inventory = load_inventory(given, complete=complete or config.complete, exclude=config.exclude)
    if not inventory.texts and not inventory.problems:
        raise InputError(
            f"nothing to audit in {', '.join(str(path) for path in given)}",
            "name a folder with Terraform (.tf), manifests, rules or policies (.yaml, .json)",
        )
    chosen = [find_check(check_id) for check_id in checks] or list(load_checks().values())
    enabled = [check for check in chosen if not any(fnmatchcase(check.info.id, glob) for glob in config.disable)]
    suppressions = [*config.suppressions(), *baseline]
    report = audit_inventory(inventory, enabled, suppressions, today or dt.datetime.now(dt.UTC).date())
    return report, inventory


def audit_inventory(
    inventory: Inventory, checks: list[Check], suppressions: Sequence[Suppression], today: dt.date
) -> AuditReport:
    """Run checks over an inventory that is loaded already; comments in its files count as suppressions."""
    scopes = _Scopes(inventory)
    found = run_checks(inventory, checks)
    comments = [item for path, text in inventory.texts.items() for item in comments_in(path, text)]
    findings, notes = apply_suppressions(
        [(finding, scopes.start(finding)) for finding in found],
        [*comments, *suppressions],
        today,
        {check.info.id for check in checks},
    )
    findings.sort(key=_order)
    return _report(inventory, checks, findings, notes)


def run_checks(inventory: Inventory, checks: list[Check]) -> list[Finding]:
    """Return the findings of each check, duplicates removed, fingerprints set."""
    return [finding for finding, _ in run_outcomes(inventory, checks)]


def run_outcomes(inventory: Inventory, checks: list[Check]) -> list[tuple[Finding, list[Edit]]]:
    """Return the findings of `run_checks`, each with the edits that would close it."""
    findings = []
    for check in checks:
        outcomes = run_guarded(check, inventory)
        seen: set[tuple[str, str, int, str]] = set()
        repeats: Counter[tuple[str, str]] = Counter()
        for outcome in outcomes:
            # The same block is judged once for each set of tfvars: one finding unless the answer differs.
            key = (outcome.place.path, outcome.subject, outcome.place.line, outcome.result + outcome.message)
            if key in seen:
                continue
            seen.add(key)
            repeats[outcome.place.path, outcome.subject] += 1
            finding = _finding(check, outcome, repeats[outcome.place.path, outcome.subject])
            findings.append((finding, outcome.edits))
    return findings


def _finding(check: Check, outcome: Outcome, repeat: int) -> Finding:
    info = check.info
    identity = f"{info.id}\0{outcome.place.path}\0{outcome.subject}\0{repeat}"
    return Finding(
        check=info.id,
        layer=info.layer,
        result=outcome.result,
        severity=info.severity,
        message=outcome.message or ("" if outcome.result == "pass" else info.title),
        path=outcome.place.path,
        line=max(outcome.place.line, 1),
        end_line=max(outcome.place.last, 1),
        subject=outcome.subject,
        fix=(outcome.fix or info.fix).strip() if outcome.result == "fail" else "",
        fingerprint=hashlib.sha256(identity.encode()).hexdigest()[:32],
    )


class _Scopes:
    """Finds where the object or block starts that a line belongs to."""

    def __init__(self, inventory: Inventory) -> None:
        starts: dict[str, set[int]] = {}
        for item in inventory.kube:
            starts.setdefault(item.path, set()).add(item.place().line)
        for alert in inventory.alerts:
            starts.setdefault(alert.path, set()).add(alert.place().line)
        for config in inventory.terraform:
            for block in config.blocks:
                starts.setdefault(block.path, set()).add(block.place().line)
            for variable in config.variables.values():
                starts.setdefault(variable.declaration.path, set()).add(variable.declaration.place().line)
        self._starts = {path: sorted(lines) for path, lines in starts.items()}

    def start(self, finding: Finding) -> int:
        """Return the first line of the finding's object or block; the finding's own line where none is known."""
        lines = self._starts.get(finding.path, [])
        index = bisect_right(lines, finding.line)
        return lines[index - 1] if index else finding.line


def _order(finding: Finding) -> tuple[int, int, str, int, str]:
    return (
        _RESULT_ORDER[finding.result],
        SEVERITIES.index(finding.severity),
        finding.path,
        finding.line,
        finding.check,
    )


def _report(
    inventory: Inventory, checks: list[Check], findings: list[Finding], notes: list[SuppressionNote]
) -> AuditReport:
    open_findings = Counter(finding.result for finding in findings if not finding.suppressed)
    outcomes = [_summary_of(check, findings) for check in checks]
    return AuditReport(
        findings=findings,
        summary=AuditSummary(
            passed=open_findings["pass"],
            failed=open_findings["fail"],
            unknown=open_findings["unknown"],
            suppressed=sum(finding.suppressed for finding in findings),
            not_applicable=sum(item.outcome == "not applicable" for item in outcomes),
            files=len(inventory.texts),
        ),
        checks=outcomes,
        problems=sorted(inventory.problems, key=lambda problem: (problem.path, problem.line)),
        suppression_notes=notes,
        notes=inventory.notes,
    )


def _summary_of(check: Check, findings: list[Finding]) -> CheckSummary:
    results = {"suppressed" if item.suppressed else item.result for item in findings if item.check == check.info.id}
    order: tuple[Literal["fail", "unknown", "suppressed", "pass"], ...] = ("fail", "unknown", "suppressed", "pass")
    info = check.info
    return CheckSummary(
        check=info.id,
        title=info.title,
        layer=info.layer,
        severity=info.severity,
        checklist=info.checklist,
        outcome=next((result for result in order if result in results), "not applicable"),
    )


def exit_code_of(report: AuditReport, *, fail_on: Severity = "low", unknown_ok: bool = False) -> ExitCode:
    """Return what the audit exits with: 2 when an input was unreadable, 1 for open findings, 3 for only unknowns.

    Args:
        fail_on: Findings less severe than this do not count.
        unknown_ok: Unknown results do not count.
    """
    counted = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    open_results = {
        finding.result for finding in report.findings if not finding.suppressed and finding.severity in counted
    }
    return worst_exit_code(
        ExitCode.USAGE if report.problems else ExitCode.OK,
        ExitCode.FINDING if "fail" in open_results else ExitCode.OK,
        ExitCode.UNKNOWN if "unknown" in open_results and not unknown_ok else ExitCode.OK,
    )
