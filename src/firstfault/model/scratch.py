"""Private temporary folders that do not pile up: what a killed process left is deleted by the next one of its kind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["private_folder"]

_LOCK = ".lock"
_TRIES = 3
_YOUNG_S = 60.0
"""A lock file of this age may be one whose owner has not locked it yet."""


@contextlib.contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    """Make an empty folder that only this user may look into, and delete it at the end.

    Its owner holds a lock on a file of the same name beside it, which the kernel gives back when the owner ends,
    however that happens. A process id in the name would not do: containers that share a folder have ids of their own.

    Args:
        prefix: Beginning of the name, of this use alone; older folders of that name whose lock is free are deleted.
            One without a lock file is somebody else's, whatever its name.

    Raises:
        OSError: It cannot be made.
    """
    _sweep(Path(tempfile.gettempdir()), prefix)
    # The lock comes first and goes last: a folder without one would never be swept.
    descriptor, name = tempfile.mkstemp(prefix=prefix, suffix=_LOCK)
    lock = Path(name)
    folder = lock.with_suffix("")
    with os.fdopen(descriptor, "wb"):
        try:
            with contextlib.suppress(OSError):  # a file system without locks: only the age protects it there
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            try:
                _delete(folder, lock)
            except BaseException:  # a signal just now: what is private goes first
                _delete(folder, lock)
                raise


def _delete(folder: Path, lock: Path) -> None:
    """Delete a folder, then its lock; a folder that cannot be deleted as a whole keeps it for the next sweep."""
    for _ in range(_TRIES):  # a thread for which nobody waits may have added a file behind the first one's back
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
    if not folder.exists():
        lock.unlink(missing_ok=True)


def _sweep(parent: Path, prefix: str) -> None:
    """Delete the folders of that name which are this user's and whose owner has ended. Nothing here is an error."""
    with contextlib.suppress(OSError):
        for lock in parent.glob(f"{prefix}*{_LOCK}"):
            with contextlib.suppress(OSError):
                _sweep_one(lock.with_suffix(""), lock)


def _sweep_one(folder: Path, lock: Path) -> None:
    about = lock.lstat()  # a link that somebody else put there is not followed
    if about.st_uid != os.getuid() or time.time() - about.st_mtime < _YOUNG_S:
        return
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid()):
        return
    descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _delete(folder, lock)
    finally:
        os.close(descriptor)
