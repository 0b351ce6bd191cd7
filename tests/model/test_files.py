"""Files are read whole within a limit, and replaced as a whole or not at all."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.errors import InputError, LimitError
from firstfault.model.files import read_whole, replace_file


def test_limit_holds_for_files(tmp_path):
    """One byte more than allowed is refused, without reading the rest."""
    path = tmp_path / "f"
    path.write_bytes(b"x" * 11)
    assert read_whole(path, 11) == b"x" * 11
    with pytest.raises(LimitError, match="larger than 10 bytes"):
        read_whole(path, 10)


def test_standard_input_is_a_file_too():
    """`-` reads it; where there is none, that is said."""
    code = "from pathlib import Path; from firstfault.model.files import read_whole; print(read_whole(Path('-'), 99))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    given = subprocess.run([sys.executable, "-c", code], input=b"abc", env=env, capture_output=True, check=True)
    assert given.stdout == b"b'abc'\n"
    closed = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" <&-', sys.executable, code], env=env, capture_output=True, check=False
    )
    assert b"standard input is not available" in closed.stderr


def test_full_disk_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    """What a user had is worth more than half of what is new; no leftovers."""
    path = tmp_path / "manifest.yaml"
    path.write_text("mine")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, "new")
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


def test_rights_links_and_umask_are_kept(tmp_path):
    """The mode of the old file, the link that leads to it, and the user's umask for a new one."""
    path, link, new = tmp_path / "f", tmp_path / "l", tmp_path / "n"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    replace_file(link, "new")
    assert link.is_symlink()
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("new", 0o640)
    before = os.umask(0o027)
    try:
        replace_file(new, "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(new.stat().st_mode) == 0o640


def test_pipes_are_written_directly(tmp_path):
    """`--output >(command)` is a pipe."""
    pipe = tmp_path / "p"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        replace_file(pipe, "text")
        assert reader.stdout.read() == b"text"
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_open_streams_are_appended_to(tmp_path, kind):
    """`--output /dev/stderr`: what was written before and comes after stays, whatever is behind it."""
    code = (
        "import sys; from pathlib import Path; from firstfault.model.files import replace_file\n"
        "print('before', file=sys.stderr, flush=True); replace_file(Path('/dev/stderr'), 'text\\n')\n"
        "print('after', file=sys.stderr)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    target = tmp_path / "log"
    with target.open("ab") as log:
        stream = log if kind == "file" else subprocess.PIPE
        ended = subprocess.run([sys.executable, "-c", code], env=env, stderr=stream, check=True)
    assert (target.read_bytes() if kind == "file" else ended.stderr) == b"before\ntext\nafter\n"


def test_missing_folder_is_an_error(tmp_path):
    """It is not made: a slip in the name would go unnoticed."""
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "no" / "f", "x")
    with pytest.raises(InputError, match="No such file"):
        read_whole(tmp_path / "no", 1)
