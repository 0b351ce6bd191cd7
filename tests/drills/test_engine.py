"""The phase machine, in a world without a kernel: order, undo on every way out, signals."""

from __future__ import annotations

import errno
import os
import signal

import msgspec
import pytest

from drills.fakes import drill
from firstfault.drills.engine import _due
from firstfault.drills.injectors.base import Start
from firstfault.drills.interrupts import Interrupted
from firstfault.drills.journal import read_events
from firstfault.drills.tail import Line
from firstfault.errors import InputError, RestoreError


@pytest.fixture
def make(quick, tmp_path):
    """Make drills in a fake world; their journals are closed afterwards."""
    journals = []

    def one():
        made = drill(quick, tmp_path)
        journals.append(made[2])
        return made

    yield one
    for journal in journals:
        journal.close()


def events(journal):
    return [event["event"] for event in read_events(journal.folder)]


def test_phases_come_in_order_and_end_restored(make):
    """Baseline, injected, restored; the verdict comes from the logs; the journal has an end."""
    machine, world, journal, _ = make()
    report = machine.run()
    assert [phase.name for phase in report.phases] == ["baseline", "injected", "restored"]
    assert [phase.triage for phase in report.phases] == ["healthy", "fault", "healthy"]
    assert report.verdict.cause == "network.c10d.unreachable"
    assert report.restored
    assert not world.cut
    assert events(journal)[-1] == "run-ended"


def test_healthy_drill_does_not_miss_a_failed_rank(make):
    """Where nothing should fail, "not noticed" would read as a gap; where something should, it is one."""
    machine, world, *_ = make()
    world.harmless = True
    machine.scenario = msgspec.structs.replace(machine.scenario, cause="none")
    assert "ended with an error" not in " ".join(each.detector for each in machine.run().detection)
    machine, world, *_ = make()
    world.harmless = True
    (missed,) = [each for each in machine.run().detection if "ended with an error" in each.detector]
    assert missed.seconds is None


def test_undo_record_is_on_disk_before_the_fault(make):
    """When the fault is made, the journal already holds how to take it back."""
    machine, world, journal, _ = make()
    seen = []
    world.hooks["set_groups"] = lambda: seen.append(events(journal))
    machine.run()
    assert "undo-recorded" in seen[0]
    assert "injected" not in seen[0]


def test_no_fault_without_an_undo_record(make, monkeypatch):
    """When the record cannot be synced to disk, nothing is injected."""

    def full(_):
        raise OSError(28, "No space left on device")

    machine, world, _, _ = make()
    monkeypatch.setattr(os, "fsync", lambda fd: full(fd) if "probe" in world.calls else None)
    with pytest.raises(InputError, match="nothing is injected"):
        machine.run()
    assert "set_groups" not in world.calls
    assert world.calls[-1] == "close"


def test_failing_baseline_means_no_injection(make):
    """A failure that was there before cannot be blamed on the fault."""
    machine, world, _, _ = make()
    world.baseline_fails = True
    report = machine.run()
    assert [phase.name for phase in report.phases] == ["baseline"]
    assert "set_groups" not in world.calls
    assert not report.as_expected
    assert report.verdict is not None, "the baseline's own fault is reported"
    assert report.restored


def test_fault_is_taken_back_when_the_observation_fails(make):
    """An error while the fault acts does not leave it there."""
    machine, world, journal, _ = make()
    starts = []

    def second_start_fails():
        starts.append(1)
        if len(starts) == 2:
            raise InputError("the job cannot be started")

    world.hooks["start"] = second_start_fails
    with pytest.raises(InputError, match="cannot be started"):
        machine.run()
    assert not world.cut
    assert "undone" in events(journal)
    assert events(journal)[-1] == "run-ended"


def full_from(journal, monkeypatch, event):
    """Let the journal's disk be full from an event on."""
    append = journal.append
    full = False

    def limited(name, **fields):
        nonlocal full
        full = full or name == event
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(name, **fields)

    monkeypatch.setattr(journal, "append", limited)


@pytest.mark.parametrize("event", ["injected", "job-started", "rank-ended", "undoing"])
def test_full_disk_does_not_stop_the_undo(make, monkeypatch, event):
    """What cannot be journalled any more is still taken back."""
    machine, world, journal, _ = make()
    if event == "undoing":
        full_from(journal, monkeypatch, event)
    else:
        world.hooks["set_groups"] = lambda: full_from(journal, monkeypatch, event) if not world.cut else None
    with pytest.raises(InputError, match="journal cannot be written"):
        machine.run()
    assert not world.cut
    assert world.calls[-1] == "close"


def test_closed_terminal_does_not_stop_the_undo(make, monkeypatch):
    """Who watches may have gone away (`2>&1 | head`)."""
    machine, world, _, watcher = make()

    def gone(name, fields):
        if name in {"undoing", "undone", "world-closed"}:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(watcher, "event", gone)
    assert machine.run().restored
    assert not world.cut


def test_fault_that_stays_is_an_error_that_says_so(make):
    """When undo fails and something is left, the journal stays open for `recover`, and the exit code is 4."""
    machine, world, journal, watcher = make()

    def fail():
        raise OSError(1, "Operation not permitted")

    watcher.hooks["undoing"] = lambda: world.hooks.update(set_groups=fail)
    world.left = ["a rule"]
    with pytest.raises(RestoreError, match="drill recover"):
        machine.run()
    assert "run-ended" not in events(journal)
    assert events(journal)[-1] == "owed"


def test_hanging_ranks_are_ended_at_the_deadline(make):
    """Ranks that never end count as hung, and the drill goes on."""
    machine, world, _, watcher = make()
    world.hang = True
    workload = msgspec.structs.replace(machine.scenario.workload, deadline_s=0.2)
    machine.scenario = msgspec.structs.replace(machine.scenario, workload=workload)
    report = machine.run()
    assert [rank.exit_code for rank in report.phases[1].ranks] == [None, None]
    assert "deadline-passed" in watcher.events
    assert [phase.name for phase in report.phases] == ["baseline", "injected", "restored"]


def test_fault_waits_for_its_step(make):
    """An injection with a trigger acts while the job runs, and the paths are probed after the job."""
    machine, _, _, watcher = make()
    late = msgspec.structs.replace(machine.scenario.injections[0], start=Start(step=1))
    machine.scenario = msgspec.structs.replace(machine.scenario, injections=[late])
    report = machine.run()
    assert report.phases[1].ranks[0].exit_code == 0, "the cut came after the connection"
    started = [place for place, event in enumerate(watcher.events) if event == "job-started"][1]
    assert watcher.events.index("injecting") > started
    assert not report.phases[1].probes[0].reachable
    assert report.restored


def test_nohup_is_respected(make):
    """A drill that was told to outlive its terminal goes on."""
    machine, _, _, watcher = make()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    watcher.hooks["injected"] = lambda: os.kill(os.getpid(), signal.SIGHUP)
    try:
        assert machine.run().restored
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_takes_the_fault_back(make, number):
    """Ctrl-C, SIGTERM or a closed terminal while the fault acts: undo, then close, then out."""
    machine, world, journal, watcher = make()
    watcher.hooks["injected"] = lambda: os.kill(os.getpid(), number)
    with pytest.raises(Interrupted) as caught:
        machine.run()
    assert caught.value.signal == number
    assert not world.cut
    assert world.calls[-1] == "close"
    assert events(journal)[-1] == "run-ended"


def test_second_signal_does_not_stop_the_undo(make):
    """Impatience while the fault is being taken back changes nothing."""
    machine, world, journal, watcher = make()
    watcher.hooks["injected"] = lambda: os.kill(os.getpid(), signal.SIGINT)
    for moment in ("undoing", "undone", "world-closed"):
        watcher.hooks[moment] = lambda: os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(Interrupted):
        machine.run()
    assert not world.cut
    assert events(journal)[-1] == "run-ended"


def test_signal_during_a_normal_undo_waits_for_its_end(make):
    """The first Ctrl-C may come while the fault is being taken back anyway: it acts afterwards."""
    machine, world, _, watcher = make()
    watcher.hooks["undoing"] = lambda: os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(Interrupted):
        machine.run()
    assert "undone" in watcher.events
    assert not world.cut


@pytest.mark.parametrize("times", [1, 2])
def test_signal_while_the_result_is_made(make, times):
    """Nothing is owed any more: the first signal waits for the report and carries it, the second does not wait."""
    machine, world, journal, watcher = make()

    def interrupt():
        if watcher.events.count("triage-started") <= times:
            os.kill(os.getpid(), signal.SIGTERM)

    watcher.hooks["triage-started"] = interrupt
    with pytest.raises(Interrupted) as caught:
        machine.run()
    assert events(journal)[-1] == "run-ended"
    assert not world.cut
    if times == 1:
        assert caught.value.report.restored
        assert journal.report_path.is_file()
    else:
        assert caught.value.report is None


def test_failing_rank_of_the_baseline_is_not_waited_for(make):
    """The others only wait for it; what it said last is in the result, and nothing of ranks that ended well."""
    machine, world, _, watcher = make()
    world.baseline_fails = True
    world.only_first_ends = True
    report = machine.run()
    assert [rank.exit_code for rank in report.phases[0].ranks] == [1, None]
    assert "DistNetworkError" in report.phases[0].ranks[0].last_lines[-1]
    assert report.phases[0].ranks[1].last_lines == []
    assert "deadline-passed" in watcher.events


def test_handlers_are_put_back(make):
    """After a drill, Ctrl-C is again what it was."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    make()[0].run()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_left_behind_is_not_restored(make):
    """Something that is still there is named, and the drill is not called restored."""
    machine, world, _, _ = make()
    world.left = ["process 7 (stub of the world)"]
    report = machine.run()
    assert report.left_behind == ["process 7 (stub of the world)"]
    assert not report.restored


@pytest.mark.parametrize(
    ("start", "lines", "seconds", "due"),
    [
        (Start(after_s=3), [], 2.9, False),
        (Start(after_s=3), [], 3.0, True),
        (Start(log="Init COMPLETE"), ["x Init COMPLETE y"], 0, True),
        (Start(log="Init COMPLETE", rank=1), ["x Init COMPLETE y"], 0, False),
        (Start(step=2), ["[rank 0] iter 1 sum-first=6.0"], 0, False),
        (Start(step=2), ["[rank 0] iter 2 sum-first=12.0"], 0, True),
        (Start(step=2), ["[rank 0] iter 20 sum-first=12.0"], 0, True),
    ],
)
def test_injection_acts_at_its_time(start, lines, seconds, due):
    """After some seconds, at a line, or at a step, of any rank or of one."""
    assert _due(start, [Line(0, n, 0.0, text) for n, text in enumerate(lines)], seconds) is due
