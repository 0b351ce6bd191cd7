"""The triage report as text for a person, or as JSON of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from firstfault.model.redact import redact
from firstfault.model.safe_text import safe_text
from firstfault.model.vllm_memory import GIB
from firstfault.report.page import Page

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model import Evidence, Ladder, LadderGroup, Serving, SetAside, Transport, TriageReport, Verdict

__all__ = ["render_triage"]

LINE_WIDTH = 160
MOST_GROUPS = 12
MOST_RUNS = 8
MOST_NAMES = 5
# Rungs on which a job does what it is there for.
AT_WORK = frozenset({"collective", "steps", "finished", "serving"})


def render_triage(report: TriageReport, format_: str, *, width: int | None = None) -> str:
    """Render a report. Nothing in the result can act on a terminal or in CI.

    Args:
        report: What triage found.
        format_: "text" or "json".
        width: Columns of the terminal that the text is for; None for a file or a pipe.
    """
    if format_ == "json":
        return msgspec.json.format(msgspec.json.encode(harmless(report)), indent=2).decode()
    page = Page(width)
    lines: list[str] = []
    if report.verdict is not None:
        lines += _headline(page, report.verdict)
    elif report.status == "healthy":
        at_work = any(group.reached in AT_WORK for group in report.ladder.groups)
        seen = ", and they show the job at work" if at_work else "; no step, collective or served model is among them"
        lines += page.row(f"HEALTHY  nothing in these lines is a fault{seen}")
    else:
        lines.append("UNKNOWN  these lines do not say what failed")
    if report.unexplained:
        lines += ["", "Complaints that no card knows", *_evidence(page, report.unexplained)]
    lines += _ladder(page, report.ladder)
    if report.verdict is not None:
        lines += _advice(page, report.verdict)
    if report.transport is not None:
        lines += _transport(page, report.transport)
    lines += _serving(page, report.serving)
    lines += _set_aside(page, report.set_aside)
    for other in report.others:
        head = f"Also, independent of it: {other.cause} ({other.confidence:.0%}): {safe(other.title)}"
        lines += ["", *page.row(head), *_evidence(page, other.evidence[:2])]
    if report.missing:
        lines += ["", "What would decide it" if report.status == "unknown" else "What would tell more"]
        for item in report.missing:
            lines += page.prose(safe(f"{item.what}: {item.why}"), "  - ")
            lines.append(f"      {item.command}")
    return "\n".join(lines)


def safe(text: str) -> str:
    """Text of a foreign program, on one line, without secrets, unable to act on a terminal or in CI."""
    return redact(safe_text(text)).replace("\n", " ")


def harmless(report: object) -> object:
    """The report as plain data in which every string is safe to print."""

    def walk(value: object) -> object:
        if isinstance(value, str):
            return safe(value)
        if isinstance(value, list):
            return [walk(item) for item in value]
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        return value

    return walk(msgspec.to_builtins(report))


def _headline(page: Page, verdict: Verdict) -> list[str]:
    lines = page.row(f"FAULT  {verdict.cause}  layer {verdict.layer}  confidence {verdict.confidence:.2f}")
    lines += page.prose(safe(verdict.summary), "  ")
    return [*lines, "", "Evidence", *_evidence(page, verdict.evidence)]


def _advice(page: Page, verdict: Verdict) -> list[str]:
    lines: list[str] = []
    for title, items in (
        ("What follows from it", verdict.consequences),
        ("Ruled out", [f"{item.cause}: {item.why}" for item in verdict.ruled_out]),
        ("Confirm", verdict.next_steps),
        ("Fix", verdict.fix),
        ("Prevent", verdict.prevention),
    ):
        if items:
            lines += ["", title]
            for item in items:
                lines += page.prose(safe(item), "  - ")
    return lines


def _evidence(page: Page, items: Iterable[Evidence]) -> list[str]:
    lines: list[str] = []
    for item in items:
        rank = f" rank {item.rank}" if item.rank is not None else ""
        time = f" at {item.time}" if item.entry is not None and item.time else ""
        lines += page.row(f"{item.role:<11}{safe(item.where)}{time}{rank}", "  ")
        text = safe(item.text)
        lines += page.row(text if len(text) <= LINE_WIDTH else text[: LINE_WIDTH - 1] + "…", "    ")
    return lines


def _ladder(page: Page, ladder: Ladder) -> list[str]:
    if not ladder.groups:
        return []
    lines = ["", "Ladder", *page.row(" → ".join(ladder.rungs), "  ")]
    for group in sorted(ladder.groups, key=_size, reverse=True)[:MOST_GROUPS]:
        runs = [str(first) if first == last else f"{first}-{last}" for first, last in group.ranks]
        ranks = ", ".join(runs[:MOST_RUNS]) + (", …" if len(runs) > MOST_RUNS else "")
        size = _size(group)
        who = f"{size:,} ranks ({ranks})" if size > 1 else f"rank {ranks}" if size else "the job"
        stop = f"stopped at {group.stopped_at}" if group.stopped_at else "went through"
        lines += page.row(f"{who}: reached {group.reached or 'nothing'}, {stop}: {safe(group.why)}", "  ")
    if len(ladder.groups) > MOST_GROUPS:
        more = f"and {len(ladder.groups) - MOST_GROUPS:,} smaller groups (all of them with --format json)"
        lines += page.row(more, "  ")
    return lines


def _size(group: LadderGroup) -> int:
    return sum(last - first + 1 for first, last in group.ranks)


def _transport(page: Page, transport: Transport) -> list[str]:
    lines = ["", f"Transport: {transport.chosen or 'not chosen yet'}"]
    for option in transport.considered:
        mark = "used" if option.used else "no  "
        where = f"  [{safe(option.evidence.where)}]" if option.evidence else ""
        lines += page.row(f"{mark}  {option.name:<14} {option.why}{where}", "  ")
    return lines


def _serving(page: Page, servers: Iterable[Serving]) -> list[str]:
    """The numbers of each vLLM server: what it asks for, what the model and the memory allow."""
    lines: list[str] = []
    for item in servers:
        facts = [item.summary.partition("; the largest")[0]] if item.summary else []
        if item.limit is not None and item.wall != "max-position":
            facts.append(f"the model allows {item.limit:g}")
        if item.needed_bytes is not None and item.wall in ("none", "max-position"):
            facts.append(f"{item.requested} tokens take {item.needed_bytes / GIB:.2f} GiB of KV cache on each GPU")
        if item.available_bytes is not None and item.wall in ("none", None):
            facts.append(f"{item.available_bytes / GIB:.2f} GiB are there")
        largest = "" if item.largest is None else f"largest --max-model-len: {item.largest}"
        if item.safe is not None and item.safe != item.largest:
            largest += f" ({item.safe} whatever the log rounded off)"
        unknown = f"the largest length is not known: {item.unknown}" if item.unknown and not largest else ""
        said = "; ".join(filter(None, [*facts, largest, unknown]))
        lines += [f"  {safe(item.source)}", *page.prose(safe(said), "    ")]
    return ["", "vLLM", *lines] if lines else []


def _set_aside(page: Page, items: Iterable[SetAside]) -> list[str]:
    """What was not taken as output of a run, by kind; the names of the first few."""
    kinds: dict[str, list[str]] = {}
    for item in items:
        reason = item.why.removeprefix(f"{item.name}: ").removesuffix("; left out")
        kinds.setdefault(reason, []).append(item.name)
    lines: list[str] = []
    for reason, names in kinds.items():
        more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
        lines += page.prose(safe(f"{reason}: {', '.join(names[:MOST_NAMES])}{more}"), "  - ")
    return ["", "Set aside: no run printed it", *lines] if lines else []
