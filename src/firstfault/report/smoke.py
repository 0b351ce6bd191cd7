"""A smoke run as text for a person, or as JSON of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from firstfault.report.triage import harmless, safe

if TYPE_CHECKING:
    from firstfault.model.smoke import SmokeReport

__all__ = ["render_smoke"]

_MARKS = {True: "✔", False: "✘", None: "-"}


def render_smoke(report: SmokeReport, form: str) -> str:
    """Return the report as `text` or `json`."""
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(harmless(report)), indent=2).decode()
    lines = [f"smoke  rank {report.rank} of {report.world_size} on {safe(report.host)}, backend {report.backend}"]
    lines += [f"  {_MARKS[rung.ok]} {rung.rung:<10} {rung.seconds:7.2f} s  {safe(rung.why)}" for rung in report.rungs]
    if report.bus_bandwidth is not None:
        lines.append(f"    bus bandwidth {report.bus_bandwidth / 1e9:.2f} GB/s")
    if report.verdict is None:
        words = {"ok": "every rung was climbed", "unknown": "a rung failed, and nothing shows why", "fault": "fault"}
        return "\n".join([*lines, f"{report.status}: {words[report.status]}"])
    verdict = report.verdict
    found = "" if report.diagnosis_seconds is None else f", found after {report.diagnosis_seconds:.1f} s"
    lines += [f"fault: {verdict.cause} (confidence {verdict.confidence:.2f}{found})", f"  {safe(verdict.summary)}"]
    lines += [f"  {safe(each.source)}:{each.line or ''}  {safe(each.text)}" for each in verdict.evidence[:6]]
    lines += [f"  fix: {safe(each)}" for each in verdict.fix]
    return "\n".join(lines)
