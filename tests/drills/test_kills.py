"""Whatever ends a drill, and whenever: nothing of it stays on the machine. Longer: tools/kill-drills."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time

import pytest

from firstfault.act.world import WorldLostError
from firstfault.drills import recover, run_drill
from support.kills import POINTS, kill_after, kill_at, processes_of, random_moments

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("netns")]


@pytest.mark.parametrize(("point", "count"), POINTS, ids=str)
def test_sigkill_at_a_named_point_leaves_nothing(quick, tmp_path, point, count):
    """Killed at this point, the machine is as before, and `recover` finishes the journal once."""
    found = kill_at(quick, point, count, tmp_path)
    assert found.exit_code == -signal.SIGKILL
    assert found.left == []


def test_kill_between_undo_record_and_fault_is_owed_and_recovered(quick, tmp_path):
    """The record is on disk although the fault may not be there: recovery counts it as owed and takes it back."""
    found = kill_at(quick, "injecting", 1, tmp_path)
    assert found.owed == ["security-group-toggles"]
    assert found.left == []


@pytest.mark.parametrize("seconds", random_moments(4, 3.0, seed=7))
def test_sigkill_at_a_random_moment_leaves_nothing(quick, tmp_path, seconds):
    """At whatever moment the tool dies."""
    assert kill_after(quick, seconds, tmp_path).left == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize(("point", "count"), [("job-started", 2), ("undoing", 1)], ids=str)
def test_polite_signals_take_the_fault_back(quick, tmp_path, point, count, number):
    """Ctrl-C and SIGTERM end the drill in order: nothing is owed, nothing is left."""
    found = kill_at(quick, point, count, tmp_path, number=number)
    assert found.owed == []
    assert found.left == []


class KillsTheWorld:
    """Kills the world, not the tool, at an event."""

    def __init__(self, state):
        self.state = state
        self.seen = 0

    def event(self, name, fields):
        if name == "world-opened":
            self.stub = fields["identity"]["stub"]
        if name == "job-started":
            self.seen += 1
            if self.seen == 2:
                os.kill(self.stub, signal.SIGKILL)

    def tick(self):
        pass


def test_death_of_the_world_is_an_error_and_owes_nothing(quick, state):
    """When somebody kills the world itself, the fault is gone with it: an error that says so, and a closed journal."""
    with pytest.raises(WorldLostError, match=r"ended unexpectedly|is gone") as caught:
        run_drill(quick, observer=KillsTheWorld(state))
    assert caught.value.exit_code == 1  # 2 would say that nothing had been changed
    assert recover(state) == []


def test_harness_sees_what_is_left(tmp_path):
    """The search that the tests above rest on finds a process that outlived its drill."""
    env = {**os.environ, "FIRSTFAULT_STATE": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=env) as process:
        assert any(f"process {process.pid}:" in line for line in processes_of(tmp_path))
        process.kill()
    assert processes_of(tmp_path) == []


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_sigkill_of_a_run_of_all_ends_its_drills_in_order(tmp_path):
    """The drills are processes of their own: they notice that who started them is gone, and take their faults back."""
    env = {**os.environ, "FIRSTFAULT_STATE": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    arguments = ["drill", "run", "--all", "--backend", "gloo", "--at-once", "2"]
    with subprocess.Popen(
        [sys.executable, "-m", "firstfault", *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        until(lambda: sum("world-opened" in path.read_text() for path in tmp_path.glob("runs/*/journal.jsonl")) >= 2)
        process.kill()
    until(lambda: processes_of(tmp_path) == [])
    assert recover(tmp_path) == [], "each has ended its own journal"


def until(condition, seconds=60):
    """Wait for something that comes within milliseconds or, on a busy machine, seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.05)
