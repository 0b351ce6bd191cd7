"""Log files of container runtimes: CRI (containerd, CRI-O) and docker's json-file driver.

Both wrap each line of the program; what the program printed comes out as it was, long lines joined again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from firstfault.model import TextLine
from firstfault.scan.limits import MIB
from firstfault.scan.readers.base import RawLine, iter_lines, plain_line
from firstfault.scan.readers.times import parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.scan.readers.joint import JointAnalysis

__all__ = ["CRI_PREFIX", "CriReader", "DockerReader"]

CRI_PREFIX = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([FP])(?::[\w:]*)? ?"
)
# Runtimes cut lines at 16 KiB; a program that never ends its line must not fill the memory.
MAX_JOINED = 4 * MIB
DETECT_LINES = 5


class CriReader:
    """`2024-05-01T12:00:00.123456789Z stderr F text`; P marks a piece of a longer line."""

    kind = "cri-log"

    def detect(self, head: bytes) -> bool:
        """Say whether the first whole lines bear the prefix (a rotated file may begin within a line)."""
        lines = [line for line in head.split(b"\n", DETECT_LINES + 1)[: DETECT_LINES + 1] if line]
        return any(CRI_PREFIX.match(line) for line in lines[:2])

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield the program's lines."""
        del source_name, joint
        joiners = {b"stdout": _Joiner(), b"stderr": _Joiner()}
        for number, offset, data in iter_lines(stream):
            match = CRI_PREFIX.match(data)
            if match is None:
                yield from plain_line(RawLine(number, offset, data))
                continue
            time, channel, flag = match.groups()
            at = (number, offset, parse_timestamp(time.decode()))
            yield from joiners[channel].add(data[match.end() :].decode("utf-8", "replace"), at, whole=flag == b"F")
        for joiner in joiners.values():
            yield from joiner.flush()


Position = tuple[int, int, float | None]


class _Joiner:
    """Puts the pieces of a line together; the position is that of the first one."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._at: Position = (0, 0, None)

    def add(self, text: str, at: Position, *, whole: bool) -> Iterable[TextLine]:
        """Take a piece; return the line once it is whole, or too long to wait for its end."""
        if not self._parts:
            if whole:
                return _lines(text, at)
            self._at = at
        self._parts.append(text)
        self._size += len(text)
        return self.flush() if whole or self._size > MAX_JOINED else ()

    def flush(self) -> Iterable[TextLine]:
        """Return what there is."""
        if not self._parts:
            return ()
        joined = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return _lines(joined, self._at)


def _lines(text: str, at: Position) -> list[TextLine]:
    """Return the lines of a text, without blank ones; nearly always it is one."""
    number, offset, time = at
    return [
        TextLine(text=line.rstrip("\r"), line=number, offset=offset, time=time)
        for line in (text.split("\n") if "\n" in text else (text,))
        if line and not line.isspace()
    ]


class _DockerLine(msgspec.Struct):
    log: str
    time: str
    stream: str = ""


_DOCKER_HEAD = re.compile(rb'\{"log":"(?:[^"\\\n]|\\[^\n]){0,65536}"(?:,"stream":"std(?:out|err)"|,"attrs":|,"time":")')


class DockerReader:
    r"""`{"log":"text\n","stream":"stderr","time":"2024-…Z"}`; a log without its line feed goes on in the next line."""

    kind = "docker-log"

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(_DockerLine)

    def detect(self, head: bytes) -> bool:
        """Say whether one of the first two lines is such a record."""
        return any(_DOCKER_HEAD.match(line) for line in head.split(b"\n", 2)[:2])

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield the program's lines."""
        del source_name, joint
        joiners: dict[str, _Joiner] = {}
        for number, offset, data in iter_lines(stream):
            try:
                record = self._decoder.decode(data)
            except msgspec.MsgspecError:
                yield from plain_line(RawLine(number, offset, data))
                continue
            joiner = joiners.setdefault(record.stream, _Joiner())
            at = (number, offset, parse_timestamp(record.time))
            yield from joiner.add(record.log.removesuffix("\n"), at, whole=record.log.endswith("\n"))
        for joiner in joiners.values():
            yield from joiner.flush()


CRI = CriReader()
DOCKER = DockerReader()
