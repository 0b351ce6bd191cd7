"""Finds what there is to read: files, folders, archives, standard input. Formats are told from content, never names.

A source is plain bytes, UTF-8 as a rule, when it comes out of here; what they mean is the business of `scan.readers`.
One bad input becomes a `SourceProblem` and the others go on. Nothing is ever written to the paths an archive names.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import msgspec

from firstfault.errors import InputError
from firstfault.scan.document_marks import WEIGHTS
from firstfault.scan.limits import DEFAULT_LIMITS, Budget, Limits
from firstfault.scan.streams import (
    CountedRaw,
    PatientReader,
    RewoundRaw,
    detect_compression,
    detect_utf16,
    expand,
    read_head,
    transcode,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["HEAD_BYTES", "STDIN_NAME", "Source", "SourceProblem", "open_sources"]

HEAD_BYTES = 64 * 1024
STDIN_NAME = "stdin"
# Pipes that the shell made for us (`<(kubectl logs …)`); any other named pipe could block for ever.
SHELL_PIPES = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
# O_NONBLOCK: a named pipe put in the place of a file must not block us before fstat sees it.
CAREFUL = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class SourceProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An input that was not read, or not to its end.

    Attributes:
        name: Name of the source as `Source.name` would have been.
        error: Why, and what to do.
        level: "error": the user asked for it and it failed (exit code 2) · "skipped": left out on purpose, such as a
            link that leads out of a folder (worth a line in the report, no failure).
    """

    name: str
    error: InputError
    level: Literal["error", "skipped"] = "error"


class Source:
    """One stream of bytes to look at.

    A `reopenable` source (a file, plain or compressed) can be opened as often as one likes, at any time. Any other
    (member of an archive, standard input) is a stream: `open` it once, while the iterator of `open_sources` stands on
    it; `head` may be called before. Reading can raise `InputError` (damaged, cut) or `LimitError` in the middle; what
    came before is good.

    Attributes:
        name: `path`, or `outer.tar.gz!inner.log` for a member of an archive.
        size: Bytes, decompressed; None when only reading tells.
        path: The plain local file behind it, which may be mapped into memory; None for everything else.
        reopenable: Whether `open` works more than once.
    """

    def __init__(
        self,
        name: str,
        opener: Callable[[], BinaryIO],
        *,
        size: int | None = None,
        path: Path | None = None,
        reopenable: bool = False,
    ) -> None:
        self.name = name
        self.size = size
        self.path = path
        self.reopenable = reopenable
        self._opener = opener
        self._rewound: BinaryIO | None = None
        self._head: bytes | None = None
        self._used = False

    def __repr__(self) -> str:
        return f"Source({self.name!r}, size={self.size})"

    def head(self) -> bytes:
        """Return the first bytes (at most `HEAD_BYTES`) without using the source up.

        Raises:
            InputError: It cannot be read.
        """
        if self._head is not None:
            return self._head
        if self.reopenable:
            with self._opener() as stream:
                return _head_of(self.name, stream)
        stream = self.open()
        self._head = _head_of(self.name, stream)
        self._rewound = PatientReader(RewoundRaw(self.name, self._head, stream))
        return self._head

    def open(self) -> BinaryIO:
        """Return the bytes from the beginning; the caller closes the stream.

        Raises:
            InputError: It cannot be opened, or it is a stream that was opened before.
        """
        if self._rewound is not None:
            stream, self._rewound = self._rewound, None
            return stream
        if self._used and not self.reopenable:
            raise InputError(f"{self.name}: a stream can be read only once")
        self._used = True
        return self._opener()


def _head_of(name: str, stream: BinaryIO) -> bytes:
    """Read the first bytes of a source; a disk or a server that fails is that source's problem alone.

    Raises:
        InputError: It cannot be read.
    """
    try:
        return read_head(stream, HEAD_BYTES)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from error


def open_sources(
    paths: Iterable[str | os.PathLike[str]],
    *,
    stdin: BinaryIO | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Source | SourceProblem]:
    """Yield every source that the paths lead to, in the order of the paths, sorted within folders.

    Args:
        paths: Files, folders (recursive) and archives; "-" is standard input.
        stdin: The binary stream behind "-".
        limits: Limits on what untrusted input may cost.
    """
    walker = _Walker(Budget(limits))
    for given in paths:
        name = os.fspath(given)
        try:
            if name == "-":
                yield from walker.pipe(STDIN_NAME, stdin)
            else:
                yield from walker.top(name)
        except InputError as error:
            yield SourceProblem(name=STDIN_NAME if name == "-" else name, error=error)
            if walker.budget.exhausted:
                return


class _Walker:
    """Walks files, folders and archives with one budget."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    def pipe(self, name: str, stream: BinaryIO | None) -> Iterator[Source | SourceProblem]:
        """Yield what comes out of standard input or a pipe."""
        if stream is None:
            raise InputError("standard input is not available here", "name a file instead of -")
        if stream.closed:
            raise InputError("standard input was read already", "give - once")
        yield from self.stream(name, PatientReader(CountedRaw(name, stream, self.budget)), depth=0)

    def top(self, name: str) -> Iterator[Source | SourceProblem]:
        """Yield what one path of the command line leads to; links are followed, the user named them."""
        if not name:  # Path("") would be the current folder
            raise InputError("a path is empty", 'is a shell variable unset? The current folder is "."')
        path = Path(name)
        try:
            mode = path.stat().st_mode
            root = path.resolve()
        except (OSError, ValueError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise InputError(f"{path}: {reason}", "check the path") from error
        if stat.S_ISDIR(mode):
            yield from self.folder(path, root, depth=0)
        elif stat.S_ISREG(mode):
            yield from self.file(path, os.O_RDONLY)
        elif stat.S_ISFIFO(mode) and str(path).startswith(SHELL_PIPES):
            yield from self.pipe(str(path), path.open("rb"))
        else:
            raise InputError(f"{path}: {special_kind(mode)}, not a file", "pipe it into `firstfault triage -`")

    def folder(self, folder: Path, root: Path, depth: int) -> Iterator[Source | SourceProblem]:
        """Yield the files below a folder, sorted; links and special files are left out and said so."""
        if depth > self.budget.limits.max_folder_depth:
            raise InputError(f"{folder}: folders nested more than {self.budget.limits.max_folder_depth} deep")
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            raise InputError(f"{folder}: {error.strerror}") from error
        for entry in entries:
            path = Path(entry.path)
            try:
                if entry.is_symlink():
                    yield from _skip_link(path, root)
                elif entry.is_dir(follow_symlinks=False):
                    if _is_repository(path):
                        history = InputError(f"{path}: the history of a git repository; left out")
                        yield SourceProblem(name=str(path), error=history, level="skipped")
                    else:
                        yield from self.folder(path, root, depth + 1)
                else:
                    yield from self.file(path, os.O_RDONLY | NO_FOLLOW)
            except InputError as error:
                if self.budget.exhausted:
                    raise
                special = not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False))
                yield SourceProblem(name=str(path), error=error, level="skipped" if special else "error")

    def file(self, path: Path, flags: int) -> Iterator[Source | SourceProblem]:
        """Yield one regular file, or what is in it."""
        name = str(path)

        def plain() -> BinaryIO:
            return open_regular(path, flags)

        with plain() as stream:
            size = os.fstat(stream.fileno()).st_size
            head = _head_of(name, stream)
        method = detect_compression(head)

        def opener() -> BinaryIO:
            return plain() if method is None else expand(name, plain(), method, self.budget)

        if method is not None:
            with opener() as stream:
                head = read_head(stream, HEAD_BYTES)
        if (archive := _archive_format(head)) is not None or detect_compression(head) is not None:
            zip_path = path if archive == "zip" and method is None else None
            yield from self.stream(name, opener(), depth=0 if method is None else 1, zip_path=zip_path)
            return
        self.budget.count_source(name)
        if codec := detect_utf16(head):
            yield Source(name, lambda: transcode(name, opener(), codec), reopenable=True)
        elif method is None:
            yield Source(name, opener, size=size, path=path, reopenable=True)
        else:
            yield Source(name, opener, reopenable=True)

    def stream(
        self, name: str, stream: BinaryIO, depth: int, *, size: int | None = None, zip_path: Path | None = None
    ) -> Iterator[Source | SourceProblem]:
        """Yield a stream as a source, or what is in it when it is an archive or compressed; close it afterwards."""
        with stream:
            self.budget.check_depth(name, depth)
            head = read_head(stream, HEAD_BYTES)
            again = PatientReader(RewoundRaw(name, head, stream))
            if method := detect_compression(head):
                yield from self.stream(name, expand(name, again, method, self.budget), depth + 1)
            elif archive := _archive_format(head):
                yield from self.members(archive, name, again, depth, zip_path)
            else:
                self.budget.count_source(name)
                codec = detect_utf16(head)
                yield Source(name, lambda: transcode(name, again, codec) if codec else again, size=size)

    def members(
        self, archive: Literal["tar", "zip"], name: str, stream: BinaryIO, depth: int, zip_path: Path | None
    ) -> Iterator[Source | SourceProblem]:
        """Yield what is in an archive."""
        from firstfault.scan import archives  # noqa: PLC0415 - most runs see no archive

        for member in archives.members(archive, name, stream, self.budget, zip_path):
            if isinstance(member, SourceProblem):
                yield member
                continue
            try:
                yield from self.stream(member.name, member.stream, depth + 1, size=member.size)
            except InputError as error:
                if self.budget.exhausted:
                    raise
                yield SourceProblem(name=member.name, error=error)


def _archive_format(head: bytes) -> Literal["tar", "zip"] | None:
    """Return which archive a head begins, if any."""
    if head[:4] in {b"PK\x03\x04", b"PK\x05\x06"}:
        return None if WEIGHTS.match(head) else "zip"  # gigabytes of numbers, set aside as one
    if head[257:262] == b"ustar" or _is_old_tar(head[:512]):
        return "tar"
    return None


def _is_old_tar(block: bytes) -> bool:
    """Say whether a block is a tar header from before POSIX: only its checksum tells."""
    field = block[148:156].strip(b" \0")
    if len(block) < 512 or not block[0] or not field.isdigit() or set(field) & {*b"89"}:
        return False
    return int(field, 8) == sum(block) - sum(block[148:156]) + 8 * 32


def _is_repository(path: Path) -> bool:
    """Say whether a folder is a git repository's own: objects and references, nobody's output."""
    try:
        return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()
    except OSError:  # not allowed to look: reading the folder says so
        return False


def _skip_link(path: Path, root: Path) -> Iterator[SourceProblem]:
    """Leave a link out. One that stays within the tree is no loss, its target is read on its own."""
    try:
        inside = path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        inside = False
    if not inside:
        error = InputError(f"{path}: a link that leads out of {root}; left out", "name its target to have it read")
        yield SourceProblem(name=str(path), error=error, level="skipped")


def open_regular(path: Path, flags: int) -> BinaryIO:
    """Open a regular file; a path that was swapped for something else in the meantime is refused.

    Raises:
        InputError: It cannot be opened, or is not a regular file.
    """
    try:
        descriptor = os.open(path, flags | CAREFUL)
    except OSError as error:
        if error.errno == errno.ENXIO:  # what opening a socket says
            raise InputError(f"{path}: a socket or device, not a file; left out") from error
        raise InputError(f"{path}: {error.strerror}") from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise InputError(f"{path}: {special_kind(mode)}, not a file; left out")
    return os.fdopen(descriptor, "rb")


def special_kind(mode: int) -> str:
    """Name a file type that is not read."""
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(mode), "a device")
