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
_YOUNG_S = 60.0
"""A folder of this age may be one whose owner has not locked it yet."""


@contextlib.contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    """Make a folder that only this user may look into, and delete it at the end.

    Its owner holds a lock on a file in it, which the kernel gives back when the owner ends, however that happens. A
    process id in the name would not do: containers that share a folder have ids of their own.

    Args:
        prefix: Beginning of the name, of this use alone; older folders of that name whose lock is free are deleted.
            One without a lock file is somebody else's, whatever its name.

    Raises:
        OSError: It cannot be made.
    """
    _sweep(Path(tempfile.gettempdir()), prefix)
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (folder / _LOCK).open("wb") as lock:
            with contextlib.suppress(OSError):  # a file system without locks: only the age protects it there
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            inside = folder / "private"
            inside.mkdir(mode=0o700)
            yield inside


def _sweep(parent: Path, prefix: str) -> None:
    """Delete the folders of that name which are this user's and whose owner has ended. Nothing here is an error."""
    with contextlib.suppress(OSError):
        for folder in parent.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                if _is_abandoned(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    about = folder.lstat()  # a link that somebody else put there is not followed
    if not folder.is_dir() or folder.is_symlink() or about.st_uid != os.getuid():
        return False
    if time.time() - about.st_mtime < _YOUNG_S:
        return False
    descriptor = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
    return True
