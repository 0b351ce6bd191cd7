"""Chooses guardrails by what an audit found (`guard render --from-audit`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.errors import InputError
from firstfault.guardrails.spec import Guardrail
from firstfault.model.files import read_whole

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Selection", "select_from_audit"]

SCHEMA = "firstfault.audit/1"
_MAX_BYTES = 256 << 20


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit asks for.

    Attributes:
        guardrails: Those that close or would have noticed an open hole.
        because: Checks that failed, by guardrail id.
        by_hand: Checks that failed and that no guardrail of this cluster is for; the audit says what to change.
    """

    guardrails: list[Guardrail]
    because: dict[str, list[str]]
    by_hand: list[str]


def select_from_audit(path: Path, guardrails: list[Guardrail]) -> Selection:
    """Return the guardrails for the failed checks of a report of `firstfault audit --format json`.

    A guardrail is chosen when it names the check as one that it closes; where none does, those that serve the same
    items of the checklist are. Suppressed findings ask for nothing; unknown ones count as open.

    Raises:
        InputError: Not such a report.
    """
    report = _read(path)
    items = {entry.get("check"): entry.get("checklist") or [] for entry in report.get("checks") or []}
    failed = sorted(
        {
            finding["check"]
            for finding in report["findings"]
            if finding.get("result") in ("fail", "unknown") and not finding.get("suppressed")
        }
    )
    because: dict[str, list[str]] = {}
    by_hand = []
    for check in failed:
        closing = [g for g in guardrails if check in g.checks]
        chosen = closing or [g for g in guardrails if set(g.serves) & set(items.get(check, []))]
        for guardrail in chosen:
            because.setdefault(guardrail.id, []).append(check)
        if not chosen:
            by_hand.append(check)
    return Selection(guardrails=[g for g in guardrails if g.id in because], because=because, by_hand=by_hand)


def _read(path: Path) -> dict[str, Any]:
    try:
        report = msgspec.json.decode(read_whole(path, _MAX_BYTES))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}", "write it with `firstfault audit PATH --format json`") from error
    findings = report.get("findings") if isinstance(report, dict) else None
    if not isinstance(findings, list) or report.get("schema") != SCHEMA:
        raise InputError(
            f"{path}: not a report of the audit ({SCHEMA})", "write it with `firstfault audit PATH --format json`"
        )
    if not all(isinstance(item, dict) and isinstance(item.get("check"), str) for item in findings):
        raise InputError(f"{path}: a finding has no check", "write it with `firstfault audit PATH --format json`")
    return dict(report)
