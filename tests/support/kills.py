"""Kills a running drill at a chosen moment, and looks for anything that it left on the machine.

Used by tests/drills/test_kills.py and, for longer runs, by tools/kill-drills.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from firstfault.drills import recover
from firstfault.drills.journal import read_events, runs, unfinished

# Runs a drill and sends itself a signal at the first (or n-th) occurrence of an event; the journal has the event
# already, and what follows it has not begun. That makes a named point exact: "injecting" lies between the synced undo
# record and the fault, "undoing" between the order to take it back and the taking back.
_AT_EVENT = """
import os, sys
from firstfault.drills import Options, run_drill
class At:
    left = int(sys.argv[3])
    def event(self, name, fields):
        if name == sys.argv[2]:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), int(sys.argv[4]))
    def tick(self): pass
run_drill(sys.argv[1], options=Options(backend="gloo", timeout=float(sys.argv[5])), observer=At())
"""
POINTS: tuple[tuple[str, int], ...] = (
    ("world-opening", 1),
    ("world-opened", 1),
    ("planned", 1),
    ("job-started", 1),
    ("rank-ended", 1),
    ("phase-ended", 1),
    ("injecting", 1),
    ("injected", 1),
    ("job-started", 2),
    ("undoing", 1),
    ("undone", 1),
    ("job-started", 3),
    ("phase-ended", 3),
    ("world-closed", 1),
    ("triage-started", 2),
)


@dataclass
class Aftermath:
    """What was found after one kill.

    Attributes:
        point: Where it was killed: the event asked for, or the last one in the journal.
        exit_code: How the process ended.
        owed: Injections that the journal says were not taken back.
        left: What was still on the machine, and should not be.
    """

    point: str
    exit_code: int
    owed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def _machine() -> dict[str, str]:
    """What a world must not change on the machine: its mounts, interfaces, host name and hosts file."""
    return {
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "interfaces": "\n".join(sorted(path.name for path in Path("/sys/class/net").iterdir())),
        "hostname": os.uname().nodename,
        "hosts": Path("/etc/hosts").read_text(),
    }


def processes_of(state: Path) -> list[str]:
    """Every process that was started with this state folder: the tool, the world and its jobs inherit it."""
    mark = f"FIRSTFAULT_STATE={state}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(f"process {entry.name}: {(entry / 'cmdline').read_bytes()[:80]!r}")
        except OSError:
            continue
    return found


def _settled(state: Path, seconds: float = 5.0) -> list[str]:
    """Processes that are still there after the kernel had time to end them."""
    end = time.monotonic() + seconds
    while (found := processes_of(state)) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def _env(state: Path) -> dict[str, str]:
    return {**os.environ, "FIRSTFAULT_STATE": str(state), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def _aftermath(state: Path, point: str, exit_code: int, before: dict[str, str]) -> Aftermath:
    result = Aftermath(point=point, exit_code=exit_code, left=_settled(state))
    after = _machine()
    result.left += [f"{name} of the machine changed" for name in before if before[name] != after[name]]
    for run in recover(state):
        result.owed += run.owed
        result.left += run.left_behind
        if run.outcome != "recovered":
            result.left.append(f"run {run.run} is {run.outcome}")
    result.left += [f"run {folder.name} is still unfinished" for folder in runs(state) if unfinished(folder)]
    if recover(state):
        result.left.append("recover found something to do twice")
    return result


def kill_at(
    drill: str, point: str, count: int, state: Path, *, number: int = signal.SIGKILL, timeout: float = 2
) -> Aftermath:
    """Run a drill, signal it at the `count`-th occurrence of an event, and look around."""
    before = _machine()
    arguments = [drill, point, str(count), str(int(number)), str(timeout)]
    ended = subprocess.run(
        [sys.executable, "-c", _AT_EVENT, *arguments],
        env=_env(state),
        capture_output=True,
        check=False,
        start_new_session=True,
    )
    return _aftermath(state, f"{point} {count}", ended.returncode, before)


def kill_after(drill: str, seconds: float, state: Path, *, timeout: float = 2) -> Aftermath:
    """Run a drill by its command line, SIGKILL it after so many seconds, and look around."""
    before = _machine()
    with subprocess.Popen(
        [sys.executable, "-m", "firstfault", "drill", "run", drill, "--timeout", str(timeout)],
        env=_env(state),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    events = [event["event"] for folder in runs(state) for event in read_events(folder)]
    return _aftermath(state, events[-1] if events else "before the journal", code, before)


def random_moments(count: int, longest: float, seed: int) -> list[float]:
    """Moments spread over the length of a drill, the same for the same seed."""
    dice = random.Random(seed)
    return [dice.uniform(0.02, longest) for _ in range(count)]
