"""A drill as text for a person, or as JSON of the contract: plan, result, list, recovery."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import msgspec

from firstfault.report.triage import harmless, safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from firstfault.drills import LeftOut, Recovered, Repeated, Scenario
    from firstfault.model import Ladder, LadderGroup, Transport, Verdict
    from firstfault.model.drill import Change, ChangedRule, DrillReport, Phase, Row

__all__ = ["render_drill", "render_drill_list", "render_drill_plan", "render_recovered", "render_scoreboard"]

WIDTH = 100
_NARROW = 72
_MARKS = {"yes": "✔", "no": "✘", "partial": "◐", "unverified": "?", "n/a": "-"}
_EVIDENCE_LINES = 4
_LEAST = 12
_STYLES = {"good": "32", "bad": "31", "title": "1", "quiet": "2"}


class _Page:
    """Collects lines of a limited width, in colour or without.

    Args:
        width: Columns of the terminal.
        color: Whether marks and titles may be coloured.
    """

    def __init__(self, width: int = WIDTH, *, color: bool = False) -> None:
        self.width = max(40, width)
        self.color = color
        self.lines: list[str] = []

    def paint(self, text: str, style: str) -> str:
        """Return the text in a colour, where colours are wanted."""
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.color else text

    def headline(self, text: str) -> None:
        """Add what the page is about."""
        self.lines += [self.paint(line, "title") for line in wrap(safe(text), self.width)]

    def title(self, text: str) -> None:
        """Begin a section."""
        self.lines.append("")
        self.headline(text)

    def say(self, text: str, bullet: str = "  ") -> None:
        """Add a paragraph."""
        self.lines += wrap(safe(text), self.width, initial_indent=bullet, subsequent_indent=" " * len(bullet)) or [""]

    def mark(self, match: str) -> str:
        """Return the mark of a comparison."""
        return self.paint(_MARKS[match], {"yes": "good", "no": "bad"}.get(match, "quiet"))

    def table(self, rows: Sequence[Sequence[str]], marks: Sequence[str] = ()) -> None:
        """Add rows of cells in aligned columns that wrap, or one under the other where the page is too narrow."""
        cells = [[safe(cell) for cell in row] for row in rows]
        widths = _fit([max(map(len, column)) for column in zip(*cells, strict=True)], self.width - (4 if marks else 2))
        for number, row in enumerate(cells):
            lead = f"  {marks[number]} " if marks else "  "
            if self.width < _NARROW:
                self.lines.append(lead + row[0])
                for cell in filter(None, row[1:]):
                    self.say(cell, "      ")
                continue
            wrapped = [wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
            for line in range(max(map(len, wrapped))):
                parts = [
                    (part[line] if line < len(part) else "").ljust(w) for part, w in zip(wrapped, widths, strict=True)
                ]
                self.lines.append(((lead if line == 0 else " " * (4 if marks else 2)) + "  ".join(parts)).rstrip())

    def text(self) -> str:
        """Return the page."""
        return "\n".join(self.lines).strip("\n")


def _fit(widths: list[int], room: int) -> list[int]:
    """Narrow the widest columns, one column of text at a time, until all fit beside each other."""
    widths = [max(1, width) for width in widths]
    room -= 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _LEAST:
        widths[widths.index(max(widths))] -= 1
    return widths


def render_drill(report: DrillReport, format_: str, *, width: int = WIDTH, color: bool = False) -> str:
    """Render a drill's result; `format_` is "text" or "json". Nothing in it can act on a terminal or in CI."""
    if format_ == "json":
        return msgspec.json.format(msgspec.json.encode(harmless(report)), indent=2).decode()
    page = _Page(width, color=color)
    page.headline(f"{report.drill}: {report.title}")
    page.say(
        f"{report.world} world · backend {report.backend} · launcher {report.launcher} · {report.seconds:.1f} s", ""
    )
    _phases(page, report)
    _change(page, report.change)
    if report.ladder is not None and report.ladder.groups:
        _ladder(page, report.ladder)
    if report.verdict is not None:
        subject = "attempt-2/" if len(report.phases) > 1 else "attempt-1/"
        _verdict(page, report.verdict, f"{report.logs}/{subject}")
    elif report.status is not None:
        page.title(f"Verdict from the logs alone: {report.status}")
    _transport(page, report.transport, report.backend)
    if report.expected_vs_measured:
        _rows(page, "Expected against measured", report.expected_vs_measured)
    if len(report.phases) == 3:
        _rows(page, "Restored against baseline", report.recovery)
    if report.detection:
        page.title("Seconds after the fault")
        page.table(
            [[d.detector, "not noticed" if d.seconds is None else f"{d.seconds:.1f} s"] for d in report.detection]
        )
    _outcome(page, report)
    return page.text()


def _phases(page: _Page, report: DrillReport) -> None:
    page.title("Phases")
    rows, marks = [], []
    for phase in report.phases:
        good = all(rank.exit_code == 0 for rank in phase.ranks)
        marks.append(page.mark("yes" if good else "no"))
        firewall = ", ".join(
            f"{group} SG {sides['ingress']}/{sides['egress']}" for group, sides in phase.firewall.items()
        )
        opened = sum(probe.reachable for probe in phase.probes)
        paths = f"{opened} of {len(phase.probes)} paths open"
        rows.append([phase.name, f"{phase.seconds:.1f} s", _ranks(phase), _sums(phase), paths, firewall])
    page.table(rows, marks)


def _ranks(phase: Phase) -> str:
    # Without a fault, the drill does not let the others wait for a rank that failed.
    unended = "stopped" if phase.name != "injected" and any(rank.exit_code for rank in phase.ranks) else "hung"
    return "exit " + " ".join(unended if rank.exit_code is None else str(rank.exit_code) for rank in phase.ranks)


def _said(page: _Page, phase: Phase) -> None:
    """Quote what the ranks said last that failed although no fault was there."""
    for rank in phase.ranks:
        if rank.exit_code is None or rank.exit_code == 0:
            continue
        ended = f"exit code {rank.exit_code}" if rank.exit_code > 0 else f"signal {-rank.exit_code}"
        page.say(f"rank {rank.rank} on {rank.host} ended with {ended} after {rank.seconds:.1f} s. It said last:")
        for line in rank.last_lines or ["(nothing)"]:
            page.say(line, "    ")


def _sums(phase: Phase) -> str:
    shown = {" ".join(f"{value:g}" for value in rank.sums) for rank in phase.ranks}
    if shown == {""}:
        return "no sums"
    return "sums " + " / ".join(sorted(shown, key=len, reverse=True))


def _change(page: _Page, change: Change) -> None:
    if change.summary:
        page.title(f"The change: {change.summary}")
        _changed_rules(page, change.rules)
    elif change.steps:
        page.title("The change")
        for step in change.steps:
            page.say(step, "  - ")


def _changed_rules(page: _Page, rules: Iterable[ChangedRule]) -> None:
    rows = []
    for rule in rules:
        sign = "+" if rule.action == "add" else "-"
        way = "from" if rule.direction == "ingress" else "to"
        rows.append([f"{sign} {rule.group}", rule.direction, rule.ports, f"{way} {rule.peer}", rule.role, rule.title])
    if rows:
        page.table(rows)


def _ladder(page: _Page, ladder: Ladder) -> None:
    page.title("Ladder, from the logs alone")
    for group in ladder.groups:
        ranks = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in group.ranks)
        steps = _climbed(page, ladder.rungs, group)
        page.lines.append(f"  {f'rank {ranks}' if ranks else 'the job'}  {steps}")
        page.say(group.why, "      ")


def _climbed(page: _Page, rungs: Sequence[str], group: LadderGroup) -> str:
    """Return the rungs up to where the group stopped, with marks."""
    last = group.stopped_at or group.reached
    steps = []
    for rung in rungs:
        stopped = rung == group.stopped_at
        steps.append(f"{rung} {page.mark('no' if stopped else 'yes')}")
        if rung == last:
            break
    if not group.stopped_at:
        return f"all the way to {last}"
    shown = steps[-5:] if page.width >= _NARROW else steps[-2:]
    return " → ".join(shown if len(shown) == len(steps) else ["…", *shown])


def _verdict(page: _Page, verdict: Verdict, logs: str) -> None:
    page.title(f"Verdict from the logs alone: {verdict.cause}  (confidence {verdict.confidence:.2f})")
    page.say(verdict.summary.replace(logs, ""))
    for item in verdict.evidence[:_EVIDENCE_LINES]:
        where = f"{Path(item.source).name}:{item.line}" if item.line is not None else Path(item.source).name
        page.say(f"{where}  {item.text}", "    ")
    for ruled_out in verdict.ruled_out[:2]:
        page.say(f"{ruled_out.cause}: {ruled_out.why}", "  ruled out: ")
    for fix in verdict.fix[:2]:
        page.say(fix, "  fix: ")


def _transport(page: _Page, transport: Transport | None, backend: str) -> None:
    page.title("Transport between the nodes, from the baseline's logs")
    if transport is None:
        why = "NCCL was not used" if backend != "nccl" else "NCCL's lines do not say"
        page.say(
            f"{why}. NCCL would try NVLink (not between nodes), then InfiniBand or EFA, then TCP sockets; backend "
            f"{backend} uses TCP sockets."
            if backend != "nccl"
            else f"{why}."
        )
        return
    rows = [
        ["used" if option.used else "not used", option.name, option.why, _cite(option.evidence)]
        for option in transport.considered
    ]
    page.table(rows)


def _cite(evidence: object) -> str:
    source, line = getattr(evidence, "source", None), getattr(evidence, "line", None)
    return f"{Path(source).name}:{line}" if source else ""


def _rows(page: _Page, title: str, rows: Sequence[Row]) -> None:
    page.title(title)
    body = []
    for row in rows:
        guess = " (a guess)" if row.basis == "prediction" else ""
        body.append([row.item + guess, row.expected, row.measured])
    page.table([["", "expected", "measured"], *body], [" ", *(page.mark(row.match) for row in rows)])
    notes = [f"{row.item}: {row.note}" for row in rows if row.note]
    wrong = [row.item for row in rows if row.basis == "prediction" and row.match == "no"]
    if wrong:
        notes.insert(0, f"A person would have guessed otherwise, and that is the finding: {', '.join(wrong)}.")
    for note in notes:
        page.say(note, "    ")


def _outcome(page: _Page, report: DrillReport) -> None:
    page.title("Result")
    if len(report.phases) == 1:
        page.say(
            "The baseline failed, so nothing was injected: a later failure could not have been blamed on the fault. "
            "The verdict above is the baseline's."
        )
        _said(page, report.phases[0])
    else:
        went = "went as expected" if report.as_expected else "did not go as expected"
        page.say(f"{'✔' if report.as_expected else '✘'} The drill {went}.")
        for phase in report.phases[2:]:
            _said(page, phase)
    if report.restored and len(report.phases) == 1:
        page.say("✔ Nothing was changed; nothing is left behind.")
    elif report.restored and report.left_behind:
        page.say("✔ Restored: rules, paths and job equal the baseline. As announced, this stays:")
        for each in report.left_behind:
            page.say(each, "  - ")
    elif report.restored:
        page.say("✔ Restored: rules, paths and job equal the baseline; nothing is left behind.")
    else:
        page.say("✘ Not restored. " + " ".join(report.left_behind))
    home = str(Path.home())
    page.table([
        ["journal", report.journal.replace(home, "~", 1)],
        ["logs", report.logs.replace(home, "~", 1)],
    ])  # fmt: skip


def render_drill_plan(scenario: Scenario, change: Change, format_: str, *, width: int = WIDTH) -> str:
    """Render what a drill would do, without it having done anything."""
    if format_ == "json":
        plan = {
            "schema": "firstfault.drill-plan/1",
            "drill": scenario.name,
            "title": scenario.title,
            "change": change,
            "cause": scenario.cause,
            "stops_at": scenario.stops_at,
            "expect": [{"item": each.item, "measure": each.measure} for each in scenario.expect],
            "undo": _UNDO,
        }
        return msgspec.json.format(msgspec.json.encode(harmless(plan)), indent=2).decode()
    page = _Page(width)
    page.headline(f"{scenario.name}: {scenario.title}")
    for paragraph in scenario.about.strip().split("\n\n"):
        page.say(" ".join(paragraph.split()))
    page.title("Targets")
    page.table([[node.name, node.hostname, node.address] for node in scenario.find_topology().nodes])
    page.title(f"The change: {change.summary}" if change.summary else "The change")
    for step in change.steps:
        page.say(step, "  - ")
    _changed_rules(page, change.rules)
    page.title("Expected")
    page.say(f"verdict from the logs alone: {'healthy' if scenario.cause == 'none' else scenario.cause}", "  - ")
    for launcher, rung in scenario.stops_at.items():
        page.say(f"the first rank stops at {rung} (launcher {launcher})", "  - ")
    timeouts = ", ".join(f"{seconds:g} s with {backend}" for backend, seconds in scenario.workload.timeouts.items())
    page.say(f"the job gives up after the process-group timeout: {timeouts}", "  - ")
    page.title("Undo")
    page.say(_UNDO)
    return page.text()


_UNDO = (
    "The state before is written to the journal and synced to disk before the fault is made, and put back after the "
    "phase, also on errors and Ctrl-C. All of it is in namespaces that end with this program, however it ends."
)


def render_drill_list(scenarios: Sequence[Scenario], format_: str, *, width: int = WIDTH) -> str:
    """Render the table of drills."""
    if format_ == "json":
        rows = [{"name": s.name, "title": s.title, "cause": s.cause, "worlds": ["local"]} for s in scenarios]
        found = {"schema": "firstfault.drill-list/1", "drills": rows}
        return msgspec.json.format(msgspec.json.encode(harmless(found)), indent=2).decode()
    page = _Page(width)
    page.table([[s.name, "healthy" if s.cause == "none" else s.cause, s.title] for s in scenarios])
    return page.text()


def render_recovered(found: Sequence[Recovered], format_: str) -> str:
    """Render what became of interrupted runs."""
    if format_ == "json":
        result = {"schema": "firstfault.drill-recover/1", "runs": found}
        return msgspec.json.format(msgspec.json.encode(harmless(result)), indent=2).decode()
    if not found:
        return "Nothing is owed: no run was interrupted."
    page = _Page()
    words = {
        "running": "is running; nothing was touched",
        "recovered": "was interrupted; nothing of it is left",
        "owed": "was interrupted, and something is left",
    }
    for run in found:
        page.say(f"{run.run} ({run.drill}, {run.world}): {words[run.outcome]}", "")
        for kind in run.owed:
            page.say(f"{kind}: {'still owed' if run.outcome == 'owed' else 'taken back'}", "  - ")
        for left in run.left_behind:
            what, _, todo = left.partition("\n  what to do: ")
            page.say(what, "  - ")
            if todo:
                page.say(f"what to do: {todo}", "    ")
    return page.text()


def render_scoreboard(
    reports: Sequence[DrillReport],
    format_: str,
    left_out: Sequence[LeftOut] = (),
    repeated: Sequence[Repeated] = (),
    *,
    width: int = WIDTH,
    color: bool = False,
) -> str:
    """Render the results of several drills: one line each, or all of them as JSON.

    Args:
        reports: The results.
        format_: text or json.
        left_out: Drills that were not run, with the reason.
        repeated: Drills that were run again alone, with what had been wrong beside the others.
        width: Columns of the terminal.
        color: Whether marks may be coloured.
    """
    if format_ == "json":
        skipped = [{"drill": each.name, "why": each.why} for each in left_out]
        again = [{"drill": each.name, "why": each.why} for each in repeated]
        board = {"schema": "firstfault.drill-all/1", "drills": reports, "left_out": skipped, "repeated": again}
        return msgspec.json.format(msgspec.json.encode(harmless(board)), indent=2).decode()
    page = _Page(width, color=color)
    rows, marks = [], []
    for report in reports:
        verdict = report.verdict.cause if report.verdict else (report.status or "not reached")
        marks.append(page.mark("yes" if report.as_expected and report.restored else "no"))
        state = "restored" if report.restored else "NOT RESTORED"
        rows.append([report.drill, verdict, f"{report.seconds:.1f} s", state])
    page.table(rows, marks)
    good = sum(report.as_expected and report.restored for report in reports)
    page.lines += ["", f"{good} of {len(reports)} drills went as expected and were restored"]
    page.lines += [f"run again alone: {safe(each.name)} (beside the others: {safe(each.why)})" for each in repeated]
    page.lines += [
        f"{'FAILED' if each.failed else 'not run'}: {safe(each.name)} ({safe(each.why)})" for each in left_out
    ]
    return page.text()
