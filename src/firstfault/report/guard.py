"""What `firstfault guard` prints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.guardrails import BudgetReport, Change, LockReport, PathBudget, Rendered

__all__ = ["budget_report", "lock_report", "render_report"]


def render_report(rendered: Rendered, changes: list[Change], out: Path, format_: str, *, dry_run: bool) -> str:
    """Return what `guard render` did, or with `dry_run` would do."""
    if format_ == "json":
        answer = {
            "schema": "firstfault.guard/1",
            "command": "render",
            "out": str(out),
            "dry_run": dry_run,
            "guardrails": [{"id": g.id, "title": g.title, "serves": g.serves} for g in rendered.guardrails],
            "changes": changes,
            "because": rendered.selection.because if rendered.selection else None,
            "by_hand": rendered.selection.by_hand if rendered.selection else None,
        }
        return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode() + "\n"
    chosen = rendered.selection
    counts = Counter(change.action for change in changes)
    lines = [f"  {change.action:9} {change.path}" for change in changes if change.action != "unchanged"]
    said = ", ".join(f"{counts[action]} {action}" for action in sorted(counts)) or "nothing"
    verb = "would write" if dry_run else "wrote"
    lines.append(f"{verb} {out}: {len(rendered.guardrails)} guardrails; files: {said}")
    if chosen:
        lines += [f"  {name}: closes or notices {', '.join(checks)}" for name, checks in sorted(chosen.because.items())]
        lines += [f"  to change by hand, see the audit: {check}" for check in chosen.by_hand]
    return "\n".join(lines) + "\n"


def budget_report(report: BudgetReport, format_: str) -> str:
    """Return the detection budget as text or JSON."""
    if format_ == "json":
        return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
    lines = []
    for scenario in report.scenarios:
        verdict = "< 60 s" if scenario.within_minute else "NOT < 60 s"
        goal = "" if scenario.within_goal else f", goal {scenario.goal_s:g} s missed"
        lines.append(f"{scenario.id}  {scenario.title}")
        budget = f"{scenario.budget_s or 0:g} s by {scenario.best} ({verdict}{goal})"
        if scenario.budget_s is None:
            budget = f"not noticed by any guardrail that was chosen (goal {scenario.goal_s:g} s)"
        lines.append(f"    {budget}; the checklist estimated: {scenario.estimate}")
        lines += [f"      {_line(path)}" for path in scenario.paths]
    lines += ["", "every rule"]
    lines += [f"    {_line(path)}" for path in report.rules]
    lines.append("Delivery by the pager is not included. Terms marked ~ are estimates, to be measured on the cluster.")
    return "\n".join(lines) + "\n"


def _line(path: PathBudget) -> str:
    if path.seconds is None:
        return f"   -    {path.path} ({path.note})" if path.note else f"   -    {path.path}"
    terms = " + ".join(f"{'~' if term.basis == 'assumed' else ''}{term.name} {term.seconds:g}" for term in path.terms)
    mark = "" if path.within_minute else "  not < 60 s"
    if path.partial:
        mark += f"  (partial: {path.note})"
    return f"{path.seconds:6g} s  {path.path} = {terms or 0}; mostly {path.dominant}{mark}"


_VERDICTS = {
    "pass": "PASS: the plan keeps what training needs",
    "refuse": "REFUSED: the plan takes away what training needs",
    "unknown": "COULD NOT TELL: a value that decides is known only after the apply",
}


def lock_report(report: LockReport, format_: str) -> str:
    """Return the lock's verdict as text or JSON."""
    if format_ == "json":
        return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
    lines = [_VERDICTS[report.result]]
    for loss in report.losses:
        lines.append(f"  {loss.outcome:8} {loss.group}: {loss.need}")
        lines += [f"           - {rule}" for rule in loss.rules]
        lines += [f"           still covered by {rule}" for rule in loss.covered_by]
    lines += [f"  also removed: {rule}" for rule in report.also_removed]
    lines += [f"  note: {note}" for note in report.notes]
    if report.result == "refuse":
        lines.append(
            "  what to do: keep the rule or put an equivalent one in the same plan; for a drill use firstfault drill"
        )
    return "\n".join(lines) + "\n"
