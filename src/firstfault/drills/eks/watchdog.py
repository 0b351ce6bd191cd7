"""A process of its own that takes a fault back when the drill cannot: it was killed, or its time is over.

`python -m firstfault.drills.eks.watchdog RUN-FOLDER SECONDS PID STARTED`. The lock on the run's folder tells whether
the drill lives; the kernel gives it back when the drill's process ends, however that happens.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from firstfault.act.terraform import Child
from firstfault.drills.journal import unfinished
from firstfault.drills.recover import recover_run
from firstfault.errors import FirstFaultError

__all__ = ["reap", "start_watchdog", "watch"]

_TICK_S = 0.25
_GRACE_S = 120.0
_RETRIES = 20
_RETRY_S = 15.0


def start_watchdog(folder: Path, seconds: float) -> int:
    """Start the watchdog of a run in a session of its own; return its process id.

    Args:
        folder: The run's folder; what the watchdog does is written to `watchdog.log` in it.
        seconds: After which the drill is stopped and its fault taken back.
    """
    me = Child.of(os.getpid())
    argv = [sys.executable, "-m", __name__, str(folder), f"{seconds:g}", str(me.pid), str(me.started)]
    log = os.open(folder / "watchdog.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        # Not subprocess.Popen: the watchdog outlives this process, which must not wait for it.
        return os.posix_spawn(
            sys.executable,
            argv,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, null, 0), *((os.POSIX_SPAWN_DUP2, log, number) for number in (1, 2))],
            setsid=True,
        )
    finally:
        os.close(log)
        os.close(null)


def reap(pid: int, seconds: float = 5.0) -> None:
    """Wait a little for a watchdog that has seen the end of its run, so that no defunct process stays behind."""
    deadline = time.monotonic() + seconds
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.02)


def watch(folder: Path, seconds: float, drill: Child) -> int:
    """Wait for the end of the run; take over when it ends without one.

    Returns:
        0 when nothing is owed, 4 when something still is after many tries.
    """
    deadline = time.monotonic() + seconds
    while drill.alive and unfinished(folder):
        if time.monotonic() > deadline:
            _say(f"the drill has run for {seconds:g} s: stopping it")
            _stop(drill)
            break
        time.sleep(_TICK_S)
    for attempt in range(_RETRIES):
        if not unfinished(folder):
            return 0
        try:
            outcome = recover_run(folder)
        except FirstFaultError as error:
            _say(f"recovering failed: {error}")
        else:
            if outcome is None or outcome.outcome == "recovered":
                _say("the fault was taken back")
                return 0
            _say(f"{outcome.outcome}: {'; '.join(outcome.left_behind)}")
        if attempt < _RETRIES - 1:
            time.sleep(_RETRY_S)
    return 4


def _stop(drill: Child) -> None:
    """Ask the drill to stop (it takes the fault back itself); end it when it does not."""
    for number, patience in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, 5.0)):
        if drill.alive:
            os.kill(drill.pid, number)
        end = time.monotonic() + patience
        while drill.alive and time.monotonic() < end:
            time.sleep(_TICK_S)


def _say(text: str) -> None:
    print(time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()) + text, flush=True)


if __name__ == "__main__":
    _folder, _seconds, _pid, _started = sys.argv[1:]
    sys.exit(watch(Path(_folder), float(_seconds), Child(int(_pid), int(_started))))
