"""Reads a file that has to be read whole, within a limit and without hanging; replaces a file in one step."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
import time
from pathlib import Path

from firstfault.errors import InputError, LimitError

__all__ = ["read_whole", "refuse_special", "replace_file"]

_CHUNK = 1 << 20
_WRITER_S = 5.0
_TICK_S = 0.05
_OPEN_FILES = {"dev", "proc"}


def read_whole(path: Path, most: int) -> bytes:
    """Return the bytes of a file, of a pipe that somebody writes (`<(command)`), or of standard input ("-").

    Args:
        path: The file.
        most: The largest size in bytes.

    Raises:
        InputError: It cannot be read, is a folder or a device, or is a pipe to which nobody writes.
        LimitError: It is larger.
    """
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is not available here", "name a file instead of -")
        return _upto(sys.stdin.fileno(), path, most)
    try:
        # Without O_NONBLOCK, opening a pipe waits for its writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        about = os.fstat(descriptor)
        kind = about.st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind) or _is_null(about)):
            raise InputError(f"{path}: neither a file nor a pipe")
        start = _first_of_pipe(descriptor, path) if stat.S_ISFIFO(kind) else b""
        os.set_blocking(descriptor, True)
        return start + _upto(descriptor, path, most - len(start))
    finally:
        os.close(descriptor)


def _is_null(about: os.stat_result) -> bool:
    """Whether it is the null device, by which people say "an empty file"."""
    return stat.S_ISCHR(about.st_mode) and about.st_rdev == Path(os.devnull).stat().st_rdev


def refuse_special(path: Path, what: str) -> None:
    """Refuse what a library is about to open by name and would wait for: a pipe, a device, a socket, or a folder.

    A file that is not there is left to who reads it, who has the better words; the null device is an empty file.

    Args:
        path: The file.
        what: What it is, such as "the client key of the kubeconfig".

    Raises:
        InputError: It is there and is no file.
    """
    try:
        about = path.stat()
    except (OSError, ValueError):
        return
    mode = about.st_mode
    if not (stat.S_ISREG(mode) or _is_null(about)):
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a folder" if stat.S_ISDIR(mode) else "a device or a socket"
        raise InputError(f"{what}, {path}, is {kind}, not a file", "write its content to a file, and name that")


def _first_of_pipe(descriptor: int, path: Path) -> bytes:
    """Wait for a writer: a pipe without one is at its end at once, and one whose writer thinks would block."""
    deadline = time.monotonic() + _WRITER_S
    while time.monotonic() < deadline:
        try:
            if data := os.read(descriptor, _CHUNK):
                return data
        except BlockingIOError:
            return b""
        time.sleep(_TICK_S)
    raise InputError(f"{path}: a pipe to which nobody writes", "name a file, or - for standard input")


def _size(limit: int) -> str:
    return f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit} bytes"


def _upto(descriptor: int, path: Path, most: int) -> bytes:
    parts: list[bytes] = []
    limit = most
    try:
        while data := os.read(descriptor, _CHUNK):
            parts.append(data)
            most -= len(data)
            if most < 0:
                raise LimitError(f"{path} is larger than {_size(limit)}", "is it really what it should be?")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    return b"".join(parts)


def replace_file(path: Path, text: str) -> None:
    """Write a file so that it is never half of the old or of the new: a full disk or a kill leaves it as it was.

    Pipes and devices are written directly, and so is a file whose folder takes no other file. What is open already
    (`/dev/stdout`, `/dev/fd/3`) is appended to.

    Raises:
        OSError: It cannot be written.
    """
    if path.is_absolute() and len(path.parts) > 1 and path.parts[1] in _OPEN_FILES:
        # /dev/stderr may be a file that somebody has open: what others write there must stay, and so must its inode.
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text)
        return
    target = Path(os.path.realpath(path))
    try:
        before = target.stat()
    except FileNotFoundError:
        before = None
    if before is not None and not stat.S_ISREG(before.st_mode):
        path.write_text(text, "utf-8")
        return
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".part")
    except PermissionError:
        path.write_text(text, "utf-8")
        return
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        _like(Path(name), before)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _like(path: Path, before: os.stat_result | None) -> None:
    """Give a new file the owner and rights of the one that it replaces, or those that any new file would have."""
    if before is None:
        umask = os.umask(0)
        os.umask(umask)
        path.chmod(0o666 & ~umask)
        return
    with contextlib.suppress(OSError):  # only root may give files away
        os.chown(path, before.st_uid, before.st_gid)
    path.chmod(stat.S_IMODE(before.st_mode))
