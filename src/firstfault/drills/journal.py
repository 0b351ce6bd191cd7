"""Where a drill writes what happens, as it happens: one folder per run, one JSON line per event.

::

    $XDG_STATE_HOME/firstfault/runs/<run>/journal.jsonl   events; undo records are fsynced before the fault they undo
                                          lock            held (flock) by the process that runs the drill
                                          logs/           one folder per attempt, one file per rank
                                          report.json     the result

A run whose journal has no `run-ended` and whose lock nobody holds was interrupted; `recover` finishes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import msgspec

from firstfault.errors import InputError
from firstfault.model.files import refuse_special

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.drill import DrillReport

__all__ = ["Journal", "Undo", "read_events", "runs", "state_dir", "timestamp", "unfinished"]


def state_dir() -> Path:
    """Return the folder for journals: FIRSTFAULT_STATE, or `firstfault` in XDG_STATE_HOME (~/.local/state).

    Raises:
        InputError: None of them is set, and the user has no home folder (a container's unnamed user).
    """
    if explicit := os.environ.get("FIRSTFAULT_STATE"):
        return Path(explicit).absolute()  # the world's processes have another working directory
    base = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(base).absolute() if base else Path.home() / ".local" / "state") / "firstfault"
    except RuntimeError as error:
        raise InputError(
            "this user has no home folder to keep journals in", "set FIRSTFAULT_STATE to a folder that you can write"
        ) from error


def timestamp(seconds: float | None = None) -> str:
    """Return a time (seconds since the epoch, by default now) as ISO 8601 in UTC with milliseconds."""
    when = datetime.now(UTC) if seconds is None else datetime.fromtimestamp(seconds, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Undo(msgspec.Struct, frozen=True, kw_only=True):
    """How to take one injection back: its kind and plain data. Written before the fault is made.

    Attributes:
        id: Number within the run.
        kind: Kind of the injector.
        record: What the injector's `undo` needs.
    """

    id: int
    kind: str
    record: dict[str, Any]


class Journal:
    """Appends the events of one run. The lock tells other processes that the run is alive.

    Args:
        folder: The run's folder.
        stream: The journal file, opened for appending.
        lock: The locked file.
    """

    def __init__(self, folder: Path, stream: IO[str], lock: IO[bytes]) -> None:
        self.folder = folder
        self._stream = stream
        self._lock = lock

    @classmethod
    def create(cls, state: Path) -> Self:
        """Start the journal of a new run.

        Raises:
            InputError: The state folder cannot be written; nothing may be injected then.
        """
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(3)}"
        folder = state / "runs" / name
        try:
            folder.mkdir(parents=True, mode=0o700)
            lock = (folder / "lock").open("wb")
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stream = (folder / "journal.jsonl").open("x", encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"{folder}: {error.strerror}: the journal cannot be written, so nothing is injected",
                "set FIRSTFAULT_STATE to a folder that you can write",
            ) from error
        return cls(folder, stream, lock)

    @classmethod
    def reopen(cls, folder: Path) -> Self | None:
        """Continue the journal of an interrupted run; None while its process, or another `recover`, has it.

        Raises:
            OSError: The folder cannot be written.
            InputError: A file of it is a pipe or a folder.
        """
        for name in ("lock", "journal.jsonl"):
            refuse_special(folder / name, "a file of the journal")
        lock = (folder / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        return cls(folder, (folder / "journal.jsonl").open("a", encoding="utf-8"), lock)

    @property
    def path(self) -> Path:
        """The journal file."""
        return self.folder / "journal.jsonl"

    @property
    def report_path(self) -> Path:
        """Where the result is kept."""
        return self.folder / "report.json"

    def append(self, event: str, *, sync: bool = False, **fields: Any) -> None:
        """Write one event.

        Args:
            event: Its name.
            sync: Return only when it is on the disk.
            fields: What belongs to it; plain data or msgspec structs.

        Raises:
            OSError: It cannot be written (disk full).
        """
        line = {"time": timestamp(), "event": event, **msgspec.to_builtins(fields, enc_hook=str)}
        self._stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._stream.flush()
        if sync:
            os.fsync(self._stream.fileno())

    def record_undo(self, undo: Undo) -> None:
        """Put an undo record on the disk, folder entry included; only after that may the fault be made.

        Raises:
            InputError: It cannot be written; the fault must not be made.
        """
        try:
            self.append("undo-recorded", sync=True, undo=undo)
            directory = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise InputError(
                f"{self.path}: {error.strerror}: the undo record cannot be written, so nothing is injected",
                "free space there, or set FIRSTFAULT_STATE to another folder",
            ) from error

    def save_report(self, report: DrillReport) -> None:
        """Keep the result beside the journal; a disk without room for it does not take it from who waits for it."""
        try:
            self.report_path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
        except OSError:
            self.report_path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the journal and give the lock back."""
        with contextlib.suppress(OSError):  # what a full disk refused to take was reported when it was written
            self._stream.close()
        self._lock.close()


def read_events(folder: Path) -> Iterator[dict[str, Any]]:
    """Read a journal. A last line that was cut off by a kill is left out.

    Raises:
        InputError: There is no journal in that folder.
    """
    refuse_special(folder / "journal.jsonl", "the journal")
    try:
        lines = (folder / "journal.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}: no journal to read") from error
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def runs(state: Path) -> list[Path]:
    """Return the folders of all runs that have a journal, oldest first; none when there is no state folder yet.

    Raises:
        InputError: The state folder is not a folder or cannot be read, so nobody knows what is owed.
    """
    folder = state / "runs"
    try:
        found = sorted(Path(entry.path) for entry in os.scandir(folder) if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        place = state if error.errno == errno.ENOTDIR and not state.is_dir() else folder
        raise InputError(
            f"{place}: {error.strerror}: the journals of earlier runs cannot be read",
            "set FIRSTFAULT_STATE to the folder that the runs used, as the user who ran them",
        ) from error
    return [path for path in found if _is_file(path / "journal.jsonl")]


def _is_file(path: Path) -> bool:
    """Whether a plain file is there, or something that this user may not look at: reading it will say so."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except PermissionError:
        return True
    except OSError:
        return False


def unfinished(folder: Path) -> bool:
    """Whether a run's journal has no end.

    Raises:
        InputError: It cannot be read.
    """
    if not _is_file(folder / "journal.jsonl"):
        return False
    return not any(event.get("event") == "run-ended" for event in read_events(folder))
