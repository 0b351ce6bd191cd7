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
        said = "every rung was climbed" if report.status == "ok" else _unexplained(report)
        return "\n".join([*lines, f"{report.status}: {said}"])
    verdict = report.verdict
    found = "" if report.diagnosis_seconds is None else f", found after {report.diagnosis_seconds:.1f} s"
    lines += [f"fault: {verdict.cause} (confidence {verdict.confidence:.2f}{found})", f"  {safe(verdict.summary)}"]
    lines += [f"  {safe(each.source)}:{each.line or ''}  {safe(each.text)}" for each in verdict.evidence[:6]]
    lines += [f"  fix: {safe(each)}" for each in verdict.fix]
    return "\n".join(lines)


def _unexplained(report: SmokeReport) -> str:
    """Say what is known of a rung that failed without a cause: a peer that was told to end is no fault of the path."""
    failed = next((rung for rung in report.rungs if rung.ok is False), None)
    if failed is not None and failed.peer:
        return f"this rank could not go on without {safe(failed.peer)}; look there for what is wrong, if anything is"
    return "a rung failed, and nothing shows why"
