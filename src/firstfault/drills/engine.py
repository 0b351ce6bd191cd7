"""The phase machine: baseline, inject, observe, restore, verify, diagnose. It knows worlds and injectors, no scenario.

Whatever happens after an injection began (an error, a failed expectation, Ctrl-C), what was recorded is taken back, in
reverse order, before anything else; then the world is ended, and the journal says so.
"""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from firstfault.act.world import WorldLostError
from firstfault.drills.compare import compare, facts, recovery
from firstfault.drills.diagnose import Diagnosis
from firstfault.drills.injectors import Injector, Start, undo_record
from firstfault.drills.interrupts import Interrupted, Interrupts
from firstfault.drills.jobs import Backend, Launcher, Process, bundled_programs, processes
from firstfault.drills.journal import Journal, Undo, timestamp
from firstfault.drills.tail import Line, LogTail, last_lines, step_seconds, sums_in
from firstfault.drills.world import RankExit, Snapshot, World
from firstfault.errors import FirstFaultError, InputError, RestoreError, UnsupportedError
from firstfault.model.drill import Change, Detection, DrillReport, Phase, RankResult

if TYPE_CHECKING:
    from firstfault.drills.scenario import Scenario, Workload
    from firstfault.drills.topology import Topology
    from firstfault.model import TriageReport

__all__ = ["Drill", "Observer", "Settings"]

_TICK_S = 0.05
# The store's client tries twice when it is refused, so that a rank ends a timeout behind the first; on a loaded machine
# later still (measured: H200, eight drills side by side).
_PATIENCE = 1.25
_LINGER_S = 3.0
PhaseName = Literal["baseline", "injected", "restored"]
_ATTEMPTS: dict[PhaseName, str] = {"baseline": "attempt-1", "injected": "attempt-2", "restored": "attempt-3"}
_STEP = re.compile(r"\biter(?:ation)? (\d+)\b")


class Observer(Protocol):
    """Watches a drill; the command line draws its progress from this."""

    def event(self, name: str, fields: dict[str, Any]) -> None:
        """Something happened; the journal has it already."""

    def tick(self) -> None:
        """Time passes while something is awaited."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The choices of one run.

    Attributes:
        backend: Backend of the process group.
        launcher: How ranks are started.
        timeout: Process-group timeout in the injected phase, in seconds; None: the workload's for the backend.
        base: Folder that a relative program path starts from.
    """

    backend: Backend
    launcher: Launcher = "direct"
    timeout: float | None = None
    base: Path = Path()


class _Observation(msgspec.Struct, kw_only=True):
    """What one run of the job gave, while it is collected."""

    started: float
    ranks: dict[int, RankExit] = {}
    tail: LogTail | None = None


class Drill:
    """One run of one scenario in one world.

    Args:
        scenario: What to do and what to expect.
        world: Where; not yet opened.
        topology: The scenario's topology.
        settings: The choices of this run.
        journal: Where everything is written.
        observer: Who watches.
    """

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        *,
        topology: Topology,
        settings: Settings,
        journal: Journal,
        observer: Observer,
    ) -> None:
        self.scenario = scenario
        self.topology = topology
        self.world = world
        self.settings = settings
        self.journal = journal
        self.observer = observer
        self.interrupts = Interrupts()
        self._diagnosis = Diagnosis()
        self._owed: list[Undo] = []
        self._injected_at: float | None = None
        self._path_lost_at: float | None = None
        self._observed: dict[PhaseName, _Observation] = {}
        self._snapshots: dict[PhaseName, Snapshot] = {}

    # -- the whole -------------------------------------------------------------------------------------------------

    def run(self) -> DrillReport:
        """Go through all phases.

        Raises:
            Interrupted: Ctrl-C or SIGTERM; everything was taken back before. It carries the report when there is one.
            UnsupportedError: The world cannot be made here.
            RestoreError: A fault could not be taken back; the message says what is owed.
        """
        began = time.time()
        phases: dict[PhaseName, Phase] = {}
        change = Change()
        left: list[str] = []
        outcome = "failed"
        with self.interrupts:
            self._say("run-started", drill=self.scenario.name, world=self.world.kind, settings=self.settings)
            try:
                self._say("world-opening")
                self._say("world-opened", sync=True, identity=self.world.open())
                change = self._plan()
                phases["baseline"] = self._phase("baseline", self.scenario.workload)
                if _as_wanted(phases["baseline"], self.scenario.workload):
                    try:
                        phases["injected"] = self._injected()
                    finally:
                        self._take_back()
                    phases["restored"] = self._phase("restored", self.scenario.workload)
                outcome = "completed"
            except KeyboardInterrupt:
                outcome = "interrupted"
                raise
            finally:
                with self.interrupts.hold():
                    if outcome != "completed":
                        self._diagnosis.close()
                    left = self.world.close()
                    self._note("world-closed", left_behind=left)
                    if outcome != "completed":
                        self._end(outcome, left)
            return self._finished(phases, change, left, began)

    def _finished(self, phases: dict[PhaseName, Phase], change: Change, left: list[str], began: float) -> DrillReport:
        """Make the report and save it. Nothing is owed, so an interrupt waits for it; a second one does not."""
        report = None
        try:
            with self.interrupts.hold(stubborn=False):
                report = self._report(phases, change, left, began)
                self.journal.save_report(report)
                self._end("completed", left, restored=report.restored, as_expected=report.as_expected)
        except Interrupted as interrupt:
            interrupt.report = report
            if report is None:
                self._end("interrupted", left)
            raise
        finally:
            self._diagnosis.close()
        return report

    def _end(self, outcome: str, left: list[str], **fields: Any) -> None:
        """Close the journal, unless something is owed: then `recover` has to find it open."""
        if self._owed and (left or not self.world.ends_faults):
            self._note("owed", undo=[undo.id for undo in self._owed], left_behind=left)
            return
        self._note("run-ended", outcome=outcome, **fields)

    def _say(self, event: str, *, sync: bool = False, **fields: Any) -> None:
        """Write an event to the journal, then show it.

        Raises:
            InputError: It cannot be written (disk full); without a journal the drill does not go on.
        """
        try:
            self.journal.append(event, sync=sync, **fields)
        except OSError as error:
            raise InputError(
                f"{self.journal.path}: {error.strerror}: the journal cannot be written, so the drill ends here",
                "free space there, or set FIRSTFAULT_STATE to another folder; then `firstfault drill recover`",
            ) from error
        self.observer.event(event, fields)

    def _note(self, event: str, **fields: Any) -> None:
        """The same on the way back, which neither a full disk nor a closed terminal may stop."""
        with contextlib.suppress(OSError):  # the undo records are on disk already
            self.journal.append(event, **fields)
        with contextlib.suppress(OSError):
            self.observer.event(event, fields)

    def _plan(self) -> Change:
        """Collect what the injections would change, and journal it."""
        parts = [injection.describe(self.world) for injection in self.scenario.injections]
        change = Change(
            summary="; ".join(part.summary for part in parts if part.summary),
            rules=[rule for part in parts for rule in part.rules],
            steps=[step for part in parts for step in part.steps],
        )
        self._say("planned", change=change)
        return change

    # -- phases ----------------------------------------------------------------------------------------------------

    def _phase(
        self,
        name: PhaseName,
        workload: Workload,
        *,
        timeout: float | None = None,
        triggers: list[Injector] | None = None,
    ) -> Phase:
        started = time.time()
        self._say("phase-started", phase=name)
        before_job = not triggers
        probes = self.world.probe(patient=name != "injected") if before_job else []
        probed = time.time()
        observation = self._job(name, workload, timeout or workload.calm_timeout_s, triggers or [])
        if not before_job:
            probes = self.world.probe()
        elif name == "injected" and not all(probe.reachable for probe in probes):
            self._path_lost_at = probed
        snapshot = self.world.snapshot()
        self._observed[name] = observation
        self._snapshots[name] = snapshot
        logs = self._logs(name)
        phase = Phase(
            name=name,
            started=timestamp(started),
            seconds=round(time.time() - started, 3),
            ranks=[
                self._rank(process, observation, logs, calm=name != "injected")
                for process in self._processes(workload, timeout)
            ],
            firewall=snapshot.firewall,
            refused=snapshot.refused,
            probes=probes,
        )
        self._say("phase-ended", phase=phase, digest=snapshot.digest, observed=snapshot.observed)
        return phase

    def _injected(self) -> Phase:
        """Make the faults that act before the job, run the job, make the others when their time comes."""
        workload = self.scenario.workload
        if usual := step_seconds(self._logs("baseline")):
            # The job's objective, as its owner would have set it after such a run.
            objective = {**workload.env, "FIRSTFAULT_USUAL_STEP_S": f"{usual:.4f}"}
            workload = msgspec.structs.replace(workload, env=objective)
        for injection in self.scenario.injections:
            workload = injection.adapt(workload)
            if injection.start.before_job:
                self._inject(injection)
        timeout = self.settings.timeout or workload.timeouts.get(self.settings.backend, workload.calm_timeout_s)
        later = [injection for injection in self.scenario.injections if not injection.start.before_job]
        return self._phase("injected", workload, timeout=timeout, triggers=later)

    def _inject(self, injection: Injector) -> None:
        undo = Undo(
            id=len(self._owed) + 1,
            kind=str(injection.__struct_config__.tag),
            record=injection.prepare(self.world),
        )
        self.journal.record_undo(undo)
        self._owed.append(undo)
        self._say("injecting", undo=undo.id, kind=undo.kind)
        try:
            injection.inject(self.world)
        except OSError as error:
            raise UnsupportedError(f"{undo.kind} cannot be made: {error.strerror or error}") from error
        if self._injected_at is None:
            self._injected_at = time.time()
        self._say("injected", undo=undo.id)

    def _take_back(self) -> None:
        """Undo what was recorded, newest first. No signal stops it."""
        with self.interrupts.hold():
            while self._owed:
                undo = self._owed[-1]
                self._note("undoing", undo=undo.id)
                try:
                    undo_record(undo.kind, self.world, undo.record)
                except WorldLostError:
                    self._owed.clear()  # the fault was part of that world, and is gone with it
                    raise
                except (OSError, FirstFaultError) as error:
                    self._note("undo-failed", undo=undo.id, error=str(error))
                    raise RestoreError(
                        f"{undo.kind} could not be taken back: {error}",
                        f"`firstfault drill recover` finishes it; the record is in {self.journal.path}",
                    ) from error
                self._owed.pop()
                self._note("undone", undo=undo.id)
            self.world.end_job()

    # -- the job ---------------------------------------------------------------------------------------------------

    def _logs(self, name: PhaseName) -> Path:
        return self.journal.folder / "logs" / _ATTEMPTS[name]

    def _processes(self, workload: Workload, timeout: float | None) -> list[Process]:
        return processes(
            workload,
            self.topology,
            backend=self.settings.backend,
            launcher=self.settings.launcher,
            timeout=timeout or workload.calm_timeout_s,
            base=self.settings.base,
            temporary=self.world.temporary,
        )

    def _job(self, name: PhaseName, workload: Workload, timeout: float, triggers: list[Injector]) -> _Observation:
        """Run the job to its end or its deadline."""
        job = self._processes(workload, timeout)
        logs = self._logs(name)
        observation = _Observation(started=time.time(), ranks={}, tail=LogTail(job, logs))
        limits = workload.deadlines if name == "injected" else {}
        limit = limits.get(self.settings.backend) or workload.deadline_s or 60 + 6 * timeout
        deadline = observation.started + limit
        own = workload.program not in bundled_programs()
        self._say("job-started", phase=name, ranks=len(job), timeout=timeout, deadline=limit, own_program=own)
        self.world.start(job, logs)
        if name == "injected" and not triggers:
            self._diagnosis.begin(self._logs("baseline"))  # with triggers, nothing may delay the look at the logs
        pending = list(triggers)
        while len(observation.ranks) < len(job) and time.time() < deadline:
            self._watch(observation, pending)
            self.world.examine(logs, stuck_s=min(timeout, limit) / 2)
            if ended := self.world.poll(_TICK_S):
                observation.ranks[ended.rank] = ended
                if ended.code:
                    # A launcher or an operator would end the others now; what they print by themselves counts first.
                    # Without a fault there is nothing to learn from how long they wait for a rank that is gone.
                    patience = timeout * _PATIENCE if name == "injected" else 0
                    deadline = min(deadline, ended.time + patience + _LINGER_S)
                self._say("rank-ended", phase=name, rank=ended.rank, exit_code=ended.code)
        self._watch(observation, [])
        if len(observation.ranks) < len(job):
            waiting = [process.rank for process in job if process.rank not in observation.ranks]
            failed = [rank for rank, ended in observation.ranks.items() if ended.code]
            self._say("deadline-passed", phase=name, ranks=waiting, failed=failed)
        self.world.end_job()
        return observation

    def _watch(self, observation: _Observation, pending: list[Injector]) -> None:
        """Look at the logs, and make the faults whose time has come."""
        self.observer.tick()
        assert observation.tail is not None
        lines = observation.tail.read()
        for injection in list(pending):
            if _due(injection.start, lines, time.time() - observation.started):
                pending.remove(injection)
                self._inject(injection)

    def _rank(self, process: Process, observation: _Observation, logs: Path, *, calm: bool) -> RankResult:
        ended = observation.ranks.get(process.rank)
        failed = calm and ended is not None and ended.code != 0
        return RankResult(
            rank=process.rank,
            host=process.host,
            exit_code=ended.code if ended else None,
            sums=sums_in(logs / process.log, process.rank),
            seconds=round((ended.time if ended else time.time()) - observation.started, 3),
            log=process.log,
            last_lines=last_lines(logs / process.log) if failed else [],
        )

    # -- the result ------------------------------------------------------------------------------------------------

    def _triage(self, phases: dict[PhaseName, Phase]) -> dict[PhaseName, TriageReport]:
        found = {}
        for name in phases:
            self._say("triage-started", phase=name)
            found[name] = self._diagnosis.report(self._logs(name))
            self.observer.tick()
        return found

    def _report(self, phases: dict[PhaseName, Phase], change: Change, left: list[str], began: float) -> DrillReport:
        triage = self._triage(phases)
        phases = {name: msgspec.structs.replace(phase, triage=triage[name].status) for name, phase in phases.items()}
        # Without a healthy baseline nothing was injected, and the baseline's own fault is what there is to report.
        subject: PhaseName = "injected" if "injected" in phases else "baseline"
        report = triage[subject]
        measured = facts(phases[subject], change, report, self._logs(subject))
        measured |= self._snapshots[subject].observed
        usual, now = (step_seconds(self._logs(name)) for name in ("baseline", subject))
        measured["iteration"] = {"seconds": now, "slowdown": round(now / usual, 1) if usual and now else None}
        context = {
            "backend": self.settings.backend, "launcher": self.settings.launcher, "world": self.world.kind,
        }  # fmt: skip
        rows = compare(self.scenario, measured, context) if "injected" in phases else []
        same = "restored" in phases and self._snapshots["baseline"].digest == self._snapshots["restored"].digest
        recovered = recovery(
            phases["baseline"],
            phases.get("restored"),
            same_configuration=same,
            logs=(self._logs("baseline"), self._logs("restored")),
            backend=self.settings.backend,
            prints_sums=bool(self.scenario.workload.sums),
        )
        stays = [each for injection in self.scenario.injections for each in injection.leaves()] if rows else []
        nothing_owed = not self._owed and not left
        return DrillReport(
            drill=self.scenario.name,
            title=self.scenario.title,
            world=self.world.kind,
            backend=self.settings.backend,
            launcher=self.settings.launcher,
            started=timestamp(began),
            seconds=round(time.time() - began, 3),
            change=change,
            phases=list(phases.values()),
            status=report.status,
            verdict=report.verdict,
            ladder=report.ladder,
            transport=triage["baseline"].transport,
            expected_vs_measured=rows,
            recovery=recovered,
            detection=self._detection(report),
            as_expected=bool(rows) and all(row.match in {"yes", "n/a"} for row in rows if row.basis == "scenario"),
            restored=nothing_owed and ("injected" not in phases or all(r.match in {"yes", "n/a"} for r in recovered)),
            left_behind=[*left, *stays],
            journal=str(self.journal.path),
            logs=str(self.journal.folder / "logs"),
        )

    def _detection(self, report: TriageReport) -> list[Detection]:
        """Say who could have noticed, and how long after the fault was there."""
        observation = self._observed.get("injected")
        if self._injected_at is None or observation is None:
            return []
        found: list[Detection] = []

        def add(detector: str, when: float | None) -> None:
            seconds = (
                None if when is None or self._injected_at is None else round(max(0.0, when - self._injected_at), 3)
            )
            found.append(Detection(detector=detector, seconds=seconds))

        if self._path_lost_at is not None:
            add("connection probe of the paths", self._path_lost_at)
        assert observation.tail is not None
        seen = observation.tail.seen
        if report.verdict:
            proofs = [seen.get((Path(e.source).name, e.line or 0)) for e in report.verdict.evidence if e.role == "root"]
            add("first line in the logs that proves the verdict", min(filter(None, proofs), default=None))
        failed = [ended.time for ended in observation.ranks.values() if ended.code]
        if failed or self.scenario.expected_cause(self.settings.backend, self.settings.launcher) != "none":
            add("first rank that ended with an error", min(failed, default=None))
        return found


def _as_wanted(phase: Phase, workload: Workload) -> bool:
    """Whether the job did what it should: only a failure after that can be blamed on the fault."""
    return all(rank.exit_code == 0 and (not workload.sums or rank.sums == workload.sums) for rank in phase.ranks)


def _due(start: Start, lines: list[Line], seconds: float) -> bool:
    """Whether an injection's time has come, given the lines that are new."""
    if start.after_s is not None:
        return seconds >= start.after_s
    for line in lines:
        if start.rank is not None and line.rank != start.rank:
            continue
        if start.log and re.search(start.log, line.text):
            return True
        if start.step is not None and (found := _STEP.search(line.text)) and int(found[1]) >= start.step:
            return True
    return False
