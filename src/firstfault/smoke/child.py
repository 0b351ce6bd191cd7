"""Starts the process that climbs the backend's rungs, gives each rung its time, and ends it when one takes longer."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.model.smoke import RungName, RungResult
from firstfault.smoke.presence import Loss

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.smoke.options import Options
    from firstfault.smoke.presence import Presence

__all__ = ["Backend", "climb_backend"]

_IMPORT_S = 60.0
"""For importing PyTorch on a cold node; it is no rung, and no fault of the network."""
_LOOK_S = 0.2
_ORDER: tuple[RungName, ...] = ("store", "init", "collective", "bandwidth")
_WHAT = {
    "store": "join the c10d store",
    "init": "initialise the communicator and run a first all_reduce",
    "collective": "get a right sum",
    "bandwidth": "measure all_reduce",
}


class Backend(msgspec.Struct, kw_only=True):
    """What the backend's rungs gave.

    Attributes:
        rungs: In order; the last one may be a failure.
        bus: Bus bandwidth in bytes per second, or None.
        exit_code: Of the process; None when it was ended because a rung took too long.
        loss: The peer without which it could not go on, or None.
    """

    rungs: list[RungResult]
    bus: float | None = None
    exit_code: int | None = None
    loss: Loss | None = None


def _environment(options: Options, descriptor: int) -> dict[str, str]:
    limits = options.limits
    environment = dict(os.environ)
    # NCCL's own words are evidence: at INFO, unless the caller asks for more, and on this process's output.
    if environment.get("NCCL_DEBUG", "").upper() not in ("INFO", "TRACE"):
        environment |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,NET,ENV,GRAPH"}
    environment.pop("NCCL_DEBUG_FILE", None)
    return environment | {
        "RANK": str(options.rank),
        "WORLD_SIZE": str(options.world_size),
        "LOCAL_RANK": str(options.local_rank),
        "MASTER_ADDR": options.master[0],
        "MASTER_PORT": str(options.master[1]),
        "PYTHONUNBUFFERED": "1",
        "FIRSTFAULT_SMOKE_FD": str(descriptor),
        "FIRSTFAULT_SMOKE_BACKEND": options.backend,
        "FIRSTFAULT_SMOKE_TIMEOUT": f"{limits.init:g}",
        "FIRSTFAULT_SMOKE_STORE_TIMEOUT": f"{limits.store + _IMPORT_S / 2:g}",
    }


def climb_backend(options: Options, log: Path, presence: Presence) -> Backend:
    """Climb store, init, collective and bandwidth in a child; what it prints goes to `log`.

    Args:
        options: Who this rank is and how long each rung may take.
        log: File for the child's output.
        presence: Tells when a peer is gone, for which the backend would wait.
    """
    read_end, write_end = os.pipe()
    try:
        with log.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-m", "firstfault.smoke.collective"],
                env=_environment(options, write_end),
                pass_fds=[write_end],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        os.close(write_end)
        write_end = -1
        try:
            return _follow(options, child, _Events(read_end, presence))
        finally:
            if child.poll() is None:
                # The whole group: NCCL's proxies and data loaders would outlive the process alone.
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    finally:
        os.close(read_end)
        if write_end >= 0:
            os.close(write_end)


def _follow(options: Options, child: subprocess.Popen[bytes], events: _Events) -> Backend:
    if events.next(_IMPORT_S) is None:
        why = "the backend's process ended before PyTorch was imported: see its log"
        return _ended([], "store", 0, why, child, events)
    rungs: list[RungResult] = []
    bus = None
    # The peers' processes may still be importing while this one waits for them in the store.
    allowed = {"store": options.limits.store + _IMPORT_S / 2}
    for rung in _ORDER:
        started = time.monotonic()
        limit = allowed.get(rung, getattr(options.limits, rung))
        event = events.next(limit)
        took = round(time.monotonic() - started, 3)
        if event is None:
            failed = child.poll() is not None or events.closed
            late = f"{limit:g} s were not enough to {_WHAT[rung]}"
            why = f"the process failed to {_WHAT[rung]}" if failed else late
            return _ended(rungs, rung, took, why, child, events)
        if rung == "collective" and not event["correct"]:
            why = f"all_reduce gave {event['got']:g} instead of {event['wanted']:g}"
            rungs.append(RungResult(rung=rung, ok=False, seconds=took, why=why))
            return Backend(rungs=rungs, exit_code=None)
        if rung == "bandwidth":
            bus = float(event["bus"])
        rungs.append(RungResult(rung=rung, ok=True, seconds=took, why=f"did {_WHAT[rung]}"))
    try:
        child.wait(options.limits.collective)
    except subprocess.TimeoutExpired:
        return Backend(rungs=rungs, bus=bus, exit_code=None)
    return Backend(rungs=rungs, bus=bus, exit_code=child.returncode)


def _ended(
    rungs: list[RungResult], rung: RungName, took: float, why: str, child: subprocess.Popen[bytes], events: _Events
) -> Backend:
    """Return what a rung's failure leaves: a peer was lost, the child ended, or its time was over."""
    loss = events.loss
    if events.closed and loss is None:
        child.wait()
    failed = RungResult(rung=rung, ok=False, seconds=took, why=why)
    if loss is not None:
        failed = msgspec.structs.replace(failed, why=loss.why, peer=f"rank {loss.rank}")
    return Backend(rungs=[*rungs, failed], exit_code=child.poll(), loss=loss)


class _Events:
    """Reads the child's progress, line by line, with a time limit.

    Attributes:
        closed: The child has closed its end.
        loss: The peer whose loss ended the wait, or None.
    """

    def __init__(self, descriptor: int, presence: Presence) -> None:
        self._descriptor = descriptor
        self._readable = select.poll()  # select() takes no descriptor above 1023, and a connection to each rank is open
        self._readable.register(descriptor, select.POLLIN | select.POLLHUP)
        self._presence = presence
        self._buffer = b""
        self.closed = False
        self.loss: Loss | None = None

    def next(self, seconds: float) -> dict[str, Any] | None:
        """Return the next event; None when none came in time, the child has closed its end, or a peer is gone."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            if not self._readable.poll(min(left, _LOOK_S) * 1000):
                self.loss = self._presence.lost()
                if self.loss is not None:
                    return None
                continue
            chunk = os.read(self._descriptor, 65536)
            if not chunk:
                self.closed = True
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event
