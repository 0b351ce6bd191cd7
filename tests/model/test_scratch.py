"""Private folders: deleted at the end, or by the next process where their owner was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from firstfault.model.scratch import private_folder

PREFIX = "firstfault-test-"
KILLED = """
import os, signal, sys, tempfile
tempfile.tempdir = sys.argv[1]
from firstfault.model.scratch import private_folder
with private_folder("firstfault-test-") as folder:
    (folder / "secret").write_text("x")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def parent(tmp_path, monkeypatch):
    """The folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def aged(folder):
    """Make a folder look as if it had been there for an hour."""
    lock = folder.with_name(f"{folder.name}.lock")
    then = lock.stat().st_mtime - 3600
    os.utime(lock, (then, then))


def test_folder_is_private_empty_and_goes(parent):
    with private_folder(PREFIX) as folder:
        assert folder.parent == parent
        assert folder.stat().st_mode & 0o077 == 0
        assert list(folder.iterdir()) == []
        (folder / "secret").touch()
    assert list(parent.iterdir()) == []


def test_folder_of_a_killed_process_is_deleted_by_the_next(parent):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", KILLED, str(parent)], env=env, check=False, timeout=60)
    (left,) = (path for path in parent.iterdir() if path.is_dir())
    assert (left / "secret").is_file()
    with private_folder(PREFIX):
        assert left.exists()  # young: it might belong to a process that has not locked it yet
    aged(left)
    with private_folder(PREFIX):
        assert not left.exists()
    assert list(parent.iterdir()) == []


def test_folders_in_use_and_of_others_stay(parent):
    """A living owner holds the lock; a folder without a lock file is not ours, whatever its name."""
    own = parent / f"{PREFIX}logs"
    own.mkdir()
    with private_folder(PREFIX) as first:
        aged(first)
        with private_folder(PREFIX):
            assert first.exists()
        assert own.exists()


def test_link_in_the_place_of_the_folder_is_not_followed(parent):
    target = parent / "precious"
    target.mkdir()
    (target / "file").touch()
    link = parent / f"{PREFIX}x"
    link.symlink_to(target)
    link.with_name(f"{link.name}.lock").touch()
    aged(link)
    with private_folder(PREFIX):
        pass
    assert (target / "file").exists()
