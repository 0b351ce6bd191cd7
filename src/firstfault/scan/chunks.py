"""Cuts a source into chunks of whole lines, each readable on its own, so that several can be scanned at once."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, BinaryIO

from firstfault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CHUNK_BYTES", "Chunk", "file_chunks", "make_readable", "read_at", "stream_chunks"]

CHUNK_BYTES = 2 * 1024 * 1024
# A line may run this far over the end of its chunk; a longer one is cut there.
LONGEST_OVERHANG = 4 * 1024 * 1024
_SHORTEST_LOOK = 4096

_SEEKING = threading.Lock()
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


class Chunk:
    """A run of whole lines: bytes that are there, or a range of a file that a worker will read itself.

    Attributes:
        number: Its place in the source, from 0.
        is_last: Nothing follows it.
    """

    def __init__(
        self,
        data: bytes = b"",
        *,
        number: int = 0,
        descriptor: int = -1,
        start: int = 0,
        size: int = 0,
        is_last: bool = False,
    ) -> None:
        self.number = number
        self._data = data
        self._descriptor = descriptor
        self._start = start
        self._size = size
        self.is_last = is_last

    def read(self) -> bytes:
        """Return the lines."""
        return self._data if self._descriptor < 0 else read_at(self._descriptor, self._size, self._start)


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Read a range of a file, from any thread; also where the platform has no pread (Windows)."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    with _SEEKING:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)


def file_chunks(file: BinaryIO) -> Iterator[Chunk]:
    """Yield the chunks of a plain file as large as it is now; workers read them, once and no byte more.

    A line that runs several megabytes over the end of its chunk is cut.
    """
    descriptor = file.fileno()
    size = os.fstat(descriptor).st_size
    start = number = 0
    while True:
        stop = _line_end(descriptor, start + CHUNK_BYTES, size)
        yield Chunk(number=number, descriptor=descriptor, start=start, size=stop - start, is_last=stop >= size)
        if stop >= size:
            return
        start = stop
        number += 1


def _line_end(descriptor: int, offset: int, size: int) -> int:
    """Where the line ends that holds the byte before an offset."""
    position = offset - 1
    look = _SHORTEST_LOOK
    while position < min(size, offset + LONGEST_OVERHANG):
        data = read_at(descriptor, look, position)
        if not data:
            break  # the file became shorter
        if end := data.find(b"\n") + 1:
            return position + end
        position += len(data)
        look = CHUNK_BYTES
    return min(position, size)


def stream_chunks(stream: BinaryIO) -> Iterator[Chunk]:
    """Yield the chunks of a stream, which is read here; a line longer than a few megabytes is cut.

    Raises:
        InputError: The stream is damaged or cut; behind the last chunk, so that nothing that was read is lost.
    """
    carry = b""
    ready = b""
    number = 0
    broken: InputError | None = None
    while True:
        try:
            data = stream.read(CHUNK_BYTES)
        except InputError as error:
            broken = error
            break
        if not data:
            break
        data = carry + data if carry else data
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) >= LONGEST_OVERHANG:
            cut = len(data)
        carry = data[cut:]
        if cut:
            if ready:
                yield Chunk(ready, number=number)
                number += 1
            ready = data[:cut]
    if ready and carry:
        if len(ready) + len(carry) <= CHUNK_BYTES:
            ready, carry = ready + carry, b""  # only the last line lacks its end
        else:
            yield Chunk(ready, number=number)
            number += 1
    yield Chunk(carry or ready, number=number, is_last=True)
    if broken is not None:
        raise broken


def make_readable(chunk: bytes) -> bytes:
    """Take colours out and let progress bars (lone CR) and CRLF end lines, without moving the start of any line."""
    if b"\x1b" in chunk:
        chunk = b"".join(_without_colours(chunk))
    return chunk.replace(b"\r", b"\n") if b"\r" in chunk else chunk


def _without_colours(chunk: bytes) -> Iterator[bytes]:
    """The parts of a chunk, each line with colours taken out of it and blanks put at its end instead.

    Found by leaping from one escape to the next: a regular expression for such lines tries each byte of a long line.
    """
    position = 0
    while (escape := chunk.find(b"\x1b", position)) >= 0:
        start = chunk.rfind(b"\n", position, escape) + 1 or position
        stop = chunk.find(b"\n", escape)
        stop = len(chunk) if stop < 0 else stop
        yield chunk[position:start]
        yield _ESCAPE.sub(b"", chunk[start:stop]).ljust(stop - start)
        position = stop
    yield chunk[position:]
