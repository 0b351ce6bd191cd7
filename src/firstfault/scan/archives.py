"""Members of tar and zip archives as streams, without ever writing one to the path that it names."""

from __future__ import annotations

import contextlib
import io
import posixpath
import struct
import tarfile
import tempfile
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Literal, Self

import msgspec

from firstfault.errors import InputError, LimitError
from firstfault.scan.limits import MIB, shorten
from firstfault.scan.sources import SourceProblem
from firstfault.scan.streams import CHUNK, CarefulRaw, CountedRaw, PatientReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from firstfault.scan.limits import Budget

__all__ = ["Member", "members"]

MAX_TAR_HEADER = MIB
MAX_ZIP_DIRECTORY = 64 * MIB
SPOOL_IN_MEMORY = 16 * MIB
MAX_READS_PAST_END = 16
ENCRYPTED = 0x1
ZIP_END, ZIP64_END = b"PK\x05\x06", b"PK\x06\x06"
ZIP_END_MAX_BYTES = 65_557 + 76


class Member(msgspec.Struct, frozen=True):
    """One regular file of an archive; its stream is good until the next member is asked for."""

    name: str
    stream: BinaryIO
    size: int


def members(
    archive: Literal["tar", "zip"], name: str, stream: BinaryIO, budget: Budget, path: Path | None
) -> Iterator[Member | SourceProblem]:
    """Yield the regular files of an archive, in its own order.

    Args:
        archive: The format.
        name: Name of the archive.
        stream: The archive from its beginning.
        budget: Limits on count, size and ratio.
        path: The archive as a local file, if it is one: a zip needs no temporary copy then.

    Raises:
        InputError: The archive is damaged.
        LimitError: It exceeds a limit.
    """
    if archive == "tar":
        yield from _tar_members(name, stream, budget)
    elif path is not None:
        with path.open("rb") as file:
            yield from _zip_members(name, file, budget)
    else:
        with _spool(name, stream, budget) as file:
            yield from _zip_members(name, file, budget)


class _CarefulTarInfo(tarfile.TarInfo):
    """A header that may not ask for a lot of memory: `tarfile` reads extended headers as a whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str | None, errors: str) -> Self:
        info = super().frombuf(buf, encoding or "utf-8", errors)
        if info.type not in tarfile.REGULAR_TYPES and info.size > MAX_TAR_HEADER:
            raise LimitError(
                f"a tar header of {info.size:,} bytes; more than {MAX_TAR_HEADER:,} are not read",
                "unpack it with tar and give the folder",
            )
        return info


class _Ending:
    """The bytes of a tar for `tarfile`, whose seek would ask for ever, block by block, for what a header made up."""

    def __init__(self, below: BinaryIO) -> None:
        self._below = below
        self._past_end = 0

    def read(self, size: int) -> bytes:
        """Read on; asking again and again past the end is an error.

        Raises:
            EOFError: The end was met too often.
        """
        data = self._below.read(size)
        if not data and size:
            self._past_end += 1
            if self._past_end > MAX_READS_PAST_END:
                raise EOFError("a header names more bytes than the archive has")
        return data


class _TarMember(CarefulRaw):
    errors: ClassVar[tuple[type[Exception], ...]] = (tarfile.TarError, OSError, EOFError)


def _tar_members(name: str, stream: BinaryIO, budget: Budget) -> Iterator[Member | SourceProblem]:
    ending: Any = _Ending(stream)
    try:
        with tarfile.open(fileobj=ending, mode="r|", bufsize=CHUNK, tarinfo=_CarefulTarInfo) as tar:
            for count, info in enumerate(tar, start=1):
                # tarfile keeps every header that it has seen; in stream mode nobody goes back to one.
                tar.members.clear()  # type: ignore[attr-defined]
                if count > budget.limits.max_sources:
                    raise LimitError(f"{name}: more than {budget.limits.max_sources:,} members", "give a part of it")
                yield from _tar_member(name, tar, info)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise InputError(f"{name}: the tar archive is damaged or cut: {error}", "what came before was read") from error


def _tar_member(name: str, tar: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[Member | SourceProblem]:
    if info.isdir():
        return
    full, problem = _member_name(name, info.name)
    if problem is None and (not info.isreg() or info.issparse()):
        kind = "a link" if info.issym() or info.islnk() else "a sparse file" if info.isreg() else "a special file"
        problem = SourceProblem(name=full, error=InputError(f"{full}: {kind}; left out"), level="skipped")
    if problem is not None:
        yield problem
        return
    file = tar.extractfile(info)
    assert file is not None
    yield Member(full, PatientReader(_TarMember(full, file)), info.size)  # type: ignore[arg-type]


class _ZipMember(CountedRaw):
    """A member of a zip. The ratio is that of the archive so far, so members that share their bytes do not escape."""

    errors: ClassVar[tuple[type[Exception], ...]] = (
        zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError,
    )  # fmt: skip

    def __init__(self, name: str, below: BinaryIO, budget: Budget, before: int, archive_size: int) -> None:
        super().__init__(name, below, budget)
        self._before = before
        self._archive_size = archive_size

    def check(self) -> None:
        """Hold the ratio against its limit."""
        self._budget.check_ratio(self.name, self._before + self.given, self._archive_size)


def _zip_members(name: str, file: BinaryIO, budget: Budget) -> Iterator[Member | SourceProblem]:
    size = file.seek(0, io.SEEK_END)
    _check_zip_directory(name, file, size)
    expanded = 0
    try:
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                if not info.filename or info.is_dir():
                    continue
                full, problem = _member_name(name, info.filename)
                if problem is None and info.flag_bits & ENCRYPTED:
                    error = InputError(f"{full}: encrypted", "unpack it with its password and give the folder")
                    problem = SourceProblem(name=full, error=error)
                if problem is not None:
                    yield problem
                    continue
                try:
                    raw = _ZipMember(full, archive.open(info), budget, expanded, size)  # type: ignore[arg-type]
                except _ZipMember.errors as broken:
                    yield SourceProblem(name=full, error=InputError(f"{full}: {broken}"))
                    continue
                yield Member(full, PatientReader(raw), info.file_size)
                expanded += raw.given
    except (zipfile.BadZipFile, struct.error, EOFError, OSError, ValueError, LookupError, NotImplementedError) as error:
        raise InputError(f"{name}: the zip archive is damaged: {error}", "fetch it again") from error


def _check_zip_directory(name: str, file: BinaryIO, size: int) -> None:
    """Refuse a directory so large that listing it would fill the memory.

    Raises:
        LimitError: It is.
    """
    file.seek(max(size - ZIP_END_MAX_BYTES, 0))
    tail = file.read(ZIP_END_MAX_BYTES)
    at, at64 = tail.rfind(ZIP_END), tail.rfind(ZIP64_END)
    directory = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    if at64 >= 0:
        directory = int.from_bytes(tail[at64 + 40 : at64 + 48], "little")
    if directory > MAX_ZIP_DIRECTORY:
        raise LimitError(f"{name}: a zip directory of {directory:,} bytes", "unpack it and give the folder")


def _member_name(archive: str, member: str) -> tuple[str, SourceProblem | None]:
    """Return the full name of a member, and a problem if that name leads out of the archive."""
    cleaned = member.replace("\\", "/").lstrip("/")
    full = f"{archive}!{cleaned}"
    if posixpath.normpath(cleaned).split("/", 1)[0] == "..":
        error = InputError(
            f"{shorten(full)}: names a path outside of the archive (path traversal); left out",
            "do not unpack this archive with a tool that trusts it",
        )
        return full, SourceProblem(name=full, error=error)
    return full, None


@contextlib.contextmanager
def _spool(name: str, stream: BinaryIO, budget: Budget) -> Iterator[BinaryIO]:
    """Copy a stream into a temporary file, because a zip is read from its end."""
    left = budget.limits.max_spool_bytes
    with tempfile.SpooledTemporaryFile(SPOOL_IN_MEMORY) as file:
        while data := stream.read(CHUNK):
            left -= len(data)
            if left < 0:
                raise LimitError(f"{name}: too large for a zip within a stream", "unpack it and give the folder")
            file.write(data)
        yield file  # type: ignore[misc]
