"""Finishes what an interrupted run owes. Reads journals only, needs no scenario, and may be repeated.

A local world ends with the process that made it, whatever ended that process, and every fault in it with it. So for a
local run there is only to make sure of that, to end what should not be there, and to say so in the journal.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from firstfault.act.world import Footprint, started_at
from firstfault.drills.journal import Journal, Undo, read_events, runs, unfinished
from firstfault.drills.local import left_of
from firstfault.errors import InputError

__all__ = ["RECOVERIES", "Recovered", "recover", "recover_run"]


# Written before the first object is made in a cluster, and before every fault.
_TOUCHES = frozenset({"locking", "world-opened", "undo-recorded"})


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one interrupted run.

    Attributes:
        run: Name of the run's folder.
        drill: Name of the drill.
        outcome: running: its process is alive, nothing was touched · recovered · owed: something is left.
        owed: Injections that were recorded and not yet taken back when the run was interrupted.
        left_behind: What is still there.
    """

    run: str
    drill: str
    world: str
    outcome: Literal["running", "recovered", "owed"]
    owed: list[str] = []
    left_behind: list[str] = []


class _Owed(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal says about an interrupted run; `touched`: it came as far as changing something outside itself."""

    drill: str
    world: str
    identity: dict[str, Any] | None
    undo: list[Undo]
    touched: bool


def _recover_local(owed: _Owed, journal: Journal) -> list[str]:  # noqa: ARG001 - the shape of all recoveries
    """End what is left of a local world."""
    if owed.identity is None:
        return []  # killed while the world was made; it had nobody else to live for
    footprint = msgspec.convert(owed.identity, Footprint)
    for pid, started in ((footprint.stub, footprint.stub_started), (footprint.init, footprint.init_started)):
        _end(pid, started)
    return left_of(footprint)


def _end(pid: int, started: int) -> None:
    """Kill a process, provided that it is the one that started then."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        # Through the descriptor, the process that was looked at is the one that is signalled.
        if started_at(pid) == started:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(pidfd)


def _recover_eks(owed: _Owed, journal: Journal) -> list[str]:
    if owed.identity is None or not owed.touched:
        # Ended before the first call that changes anything; the cluster need not even exist. Plans may lie here.
        shutil.rmtree(journal.folder / "private", ignore_errors=True)
        return []
    # Imported here: what a run on this machine owes is recovered without a Kubernetes client.
    from firstfault.drills.eks.recovery import recover_cluster  # noqa: PLC0415

    return recover_cluster(owed.identity, owed.undo, journal)


# World kind -> what takes back, or makes sure of, everything that such a run owes; returns what is left.
RECOVERIES: dict[str, Callable[[_Owed, Journal], list[str]]] = {"local": _recover_local, "eks": _recover_eks}


def _read(folder: Path) -> _Owed:
    drill = world = ""
    identity: dict[str, Any] | None = None
    undo: dict[int, Undo] = {}
    touched = False
    for event in read_events(folder):
        touched |= event.get("event") in _TOUCHES
        match event.get("event"):
            case "run-started":
                drill, world = str(event.get("drill", "")), str(event.get("world", ""))
            case "world-options":
                drill, world, identity = str(event.get("drill", "")), "eks", event.get("identity")
            case "world-opened":
                identity = event.get("identity")
            case "undo-recorded":
                record = msgspec.convert(event["undo"], Undo)
                undo[record.id] = record
            case "undone":
                undo.pop(int(event["undo"]), None)
    return _Owed(drill=drill, world=world or "local", identity=identity, undo=list(undo.values()), touched=touched)


def recover(state: Path) -> list[Recovered]:
    """Finish every interrupted run.

    Args:
        state: The state folder.

    Raises:
        InputError: The state folder cannot be read, or a journal is there but is not readable or not ours. The other
            runs are finished before.
    """
    found: list[Recovered] = []
    unreadable: list[InputError] = []
    for folder in runs(state):
        try:
            one = recover_run(folder)
        except InputError as error:
            unreadable.append(error)
            continue
        if one is not None:
            found.append(one)
    if unreadable:
        done = f"; {len(found)} other run{'s' if len(found) > 1 else ''} looked after" if found else ""
        raise InputError(
            "; ".join(error.what for error in unreadable) + done,
            "its world ended with its process, if it was a local one; look into the folder, then delete it",
        )
    return found


def recover_run(folder: Path) -> Recovered | None:
    """Finish one interrupted run; None when it ended properly.

    Raises:
        InputError: The journal is not readable or not ours.
    """
    if not unfinished(folder):
        return None
    try:
        owed = _read(folder)
        journal = Journal.reopen(folder)
    except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
        raise InputError(f"{folder / 'journal.jsonl'}: not a journal of a drill: {error}") from error
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error
    if journal is None:
        return Recovered(run=folder.name, drill=owed.drill, world=owed.world, outcome="running")
    try:
        return _finish(folder, owed, journal)
    except msgspec.ValidationError as error:
        raise InputError(f"{folder / 'journal.jsonl'}: not a journal of a drill: {error}") from error
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}: the journal cannot be written") from error
    finally:
        journal.close()


def _finish(folder: Path, owed: _Owed, journal: Journal) -> Recovered:
    if owed.world not in RECOVERIES:
        raise InputError(f"{folder}: a run in the world {owed.world!r}, which this version does not know")
    left = RECOVERIES[owed.world](owed, journal)
    for undo in reversed(owed.undo) if not left else ():
        journal.append("undone", undo=undo.id, by="recover")
    if not left:
        journal.append("run-ended", outcome="recovered", left_behind=[])
    return Recovered(
        run=folder.name,
        drill=owed.drill,
        world=owed.world,
        outcome="owed" if left else "recovered",
        owed=[undo.kind for undo in owed.undo],
        left_behind=left,
    )
