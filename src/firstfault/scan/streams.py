"""Byte streams over untrusted bytes: counting, decompression, UTF-16. Every error comes out as an `InputError`.

A stream that is damaged or cut yields all that could be read, then a line feed, then its error, again and again: the
end of a log that was cut is where the fault stands, so no last line may be lost in somebody's buffer.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import zlib
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Protocol

from firstfault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.scan.limits import Budget

__all__ = [
    "CHUNK",
    "CarefulRaw",
    "CountedRaw",
    "PatientReader",
    "RewoundRaw",
    "detect_compression",
    "detect_utf16",
    "expand",
    "read_head",
    "transcode",
]

CHUNK = 256 * 1024
LZMA_MEMORY = 512 * 1024 * 1024
ZSTD_WINDOW = 1 << 27
MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
)
ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
MAGIC_BYTES = 10
# A block, or the end of an empty file, follows the four bytes of a bzip2 header.
BZ2_BLOCKS = frozenset({b"1AY&SY", b"\x17rE8P\x90"})
# A head must have this many bytes before its zero bytes say anything about UTF-16.
UTF16_MIN_BYTES = 16
MOSTLY, HARDLY = 0.7, 0.1


class CarefulRaw(io.RawIOBase):
    """Base of the raw streams: what `produce` raises becomes a lasting `InputError` behind the last byte.

    Args:
        name: Source name for messages.
        below: The stream to close with this one.
    """

    errors: ClassVar[tuple[type[Exception], ...]] = (OSError,)

    def __init__(self, name: str, below: BinaryIO) -> None:
        self.name = name
        self.below = below
        self.given = 0
        self._error: InputError | None = None

    def produce(self, size: int) -> bytes:
        """Return 1 to `size` bytes, or b"" at the end."""
        return read_some(self.below, size)

    def check(self) -> None:
        """Raise a LimitError when `given` bytes are too many."""

    def describe(self, error: Exception) -> InputError:
        """Turn a library's error into ours."""
        reason = error.strerror if isinstance(error, OSError) else None
        return InputError(f"{self.name}: cannot be read after {self.given:,} bytes: {reason or error}")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Read once.

        Raises:
            InputError: The stream is damaged, cut, or exceeds a limit.
        """
        if self._error is not None:
            raise self._error
        try:
            data = self.produce(len(buffer))
            self.given += len(data)
            self.check()
        except InputError as error:
            # A stream below has put its line feed already.
            self._error = error
            raise
        except self.errors as error:
            self._error = self.describe(error)
            if not self.given:
                raise self._error from error
            data = b"\n"
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the stream below too."""
        if not self.closed:
            self.below.close()
        super().close()


class PatientReader(io.BufferedReader):
    """A buffered reader whose `read` does not lose what it has when the stream breaks in the middle."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__(raw, CHUNK)

    def read(self, size: int | None = -1, /) -> bytes:
        """Read `size` bytes (all for -1), fewer only before the end or an error.

        Raises:
            InputError: The stream is damaged and nothing is left to give.
        """
        return _gather(self.read1, -1 if size is None else size)


def read_some(stream: BinaryIO, size: int) -> bytes:
    """Read at most `size` bytes, as few calls down as possible; b"" at the end."""
    read1 = getattr(stream, "read1", None)
    return (read1(size) if read1 is not None else stream.read(size)) or b""


def read_head(stream: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, fewer before the end or an error (which the next read raises again)."""
    return _gather(partial(read_some, stream), max(size, 0))


def _gather(read: Callable[[int], bytes], size: int) -> bytes:
    """Read until there are `size` bytes (-1: no limit), the end, or an error after which something was got before."""
    parts: list[bytes] = []
    while size:
        try:
            data = read(CHUNK if size < 0 else min(size, CHUNK))
        except InputError:
            if parts:
                break
            raise
        if not data:
            break
        parts.append(data)
        if size > 0:
            size -= len(data)
    return parts[0] if len(parts) == 1 else b"".join(parts)


class CountedRaw(CarefulRaw):
    """Passes a stream on and counts it against the budget."""

    def __init__(self, name: str, below: BinaryIO, budget: Budget) -> None:
        super().__init__(name, below)
        self._budget = budget

    def produce(self, size: int) -> bytes:
        """Read from below and count."""
        data = super().produce(size)
        self._budget.count_expanded(self.name, len(data))
        return data


class RewoundRaw(CarefulRaw):
    """A stream whose first bytes have been read already."""

    def __init__(self, name: str, head: bytes, below: BinaryIO) -> None:
        super().__init__(name, below)
        self._head = head

    def produce(self, size: int) -> bytes:
        """Give the head, then the rest."""
        if not self._head:
            return super().produce(size)
        data, self._head = self._head[:size], self._head[size:]
        return data


class _Decompressor(Protocol):
    """What bz2 and lzma have in common; `_Zlib` makes zlib look the same."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Zlib:
    """A gzip decompressor that keeps its own unconsumed input."""

    def __init__(self) -> None:
        self._object = zlib.decompressobj(wbits=31)
        # zlib may hold output back for lack of room even when it has taken in all input.
        self._full = False

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def needs_input(self) -> bool:
        return not self._full and not self._object.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._object.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        produced = self._object.decompress(self._object.unconsumed_tail + data, max(max_length, 0))
        self._full = len(produced) == max_length
        return produced


class _Zstd:
    """A Zstandard decompressor that keeps the output that was not asked for yet.

    The library gives all output of an input at once, so it gets little input at a time: 4 KiB expand to 128 MiB at
    worst. Its stream reader would not tell a cut frame from a complete one.
    """

    PIECE = 4096

    def __init__(self) -> None:
        import zstandard  # noqa: PLC0415 - 10 ms that only compressed files need pay

        self._error_type: type[Exception] = zstandard.ZstdError
        self._object = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj(write_size=CHUNK)
        self._input = memoryview(b"")
        self._output = memoryview(b"")

    @property
    def eof(self) -> bool:
        return bool(self._object.eof) and not self._output

    @property
    def needs_input(self) -> bool:
        return not self._input and not self._output

    @property
    def unused_data(self) -> bytes:
        return bytes(self._object.unused_data) + bytes(self._input)

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        if data:
            self._input = memoryview(bytes(self._input) + data)
        while not self._output and self._input and not self._object.eof:
            piece, self._input = self._input[: self.PIECE], self._input[self.PIECE :]
            try:
                self._output = memoryview(self._object.decompress(piece))
            except self._error_type as error:
                raise ValueError(str(error)) from error
        if max_length < 0:
            max_length = len(self._output)
        given, self._output = self._output[:max_length], self._output[max_length:]
        return bytes(given)


_FACTORIES: dict[str, Callable[[], _Decompressor]] = {
    "gzip": _Zlib,
    "bz2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LZMA_MEMORY),
    "zstd": _Zstd,
}


class _Inflated(CarefulRaw):
    """A decompressed stream: several members in a row, padding behind the last one, held against the limits."""

    errors: ClassVar[tuple[type[Exception], ...]] = (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)

    def __init__(self, name: str, below: BinaryIO, method: str, budget: Budget) -> None:
        self._compressed = CarefulRaw(name, below)
        super().__init__(name, io.BufferedReader(self._compressed, CHUNK))
        self.method = method
        self._budget = budget
        self._counted = 0
        self._decompressor = _FACTORIES[method]()
        self._pending = b""

    def check(self) -> None:
        """Hold the totals against the limits."""
        self._budget.count_expanded(self.name, self.given - self._counted)
        self._counted = self.given
        self._budget.check_ratio(self.name, self.given, self._compressed.given)

    def describe(self, error: Exception) -> InputError:
        """Say that the end is missing or damaged."""
        return InputError(
            f"{self.name}: {self.method} data is damaged or cut after {self.given:,} bytes: {error}",
            "what came before was read; fetch the file again if the end of the log matters",
        )

    def produce(self, size: int) -> bytes:
        """Decompress until there is something to give."""
        while True:
            if self._decompressor.eof and not self._next_member():
                return b""
            data, self._pending = self._pending, b""
            if not data and self._decompressor.needs_input:
                data = read_some(self.below, CHUNK)
                if not data:
                    raise EOFError("the end is missing")
            if produced := self._decompressor.decompress(data, size):
                return produced

    def _next_member(self) -> bool:
        """Go on with the next member, if there is one; zero bytes behind the last one are padding."""
        rest = self._decompressor.unused_data.lstrip(b"\0")
        while len(rest) < MAGIC_BYTES and (more := read_some(self.below, CHUNK)):
            rest = (rest + more).lstrip(b"\0")
        if not rest:
            return False
        if detect_compression(rest) != self.method:
            raise EOFError("something else follows behind the end")
        self._decompressor = _FACTORIES[self.method]()
        self._pending = rest
        return True


def detect_compression(head: bytes) -> str | None:
    """Return "gzip", "zstd", "xz", "bz2" or None for the first bytes of a stream."""
    for magic, method in MAGIC:
        if head.startswith(magic):
            return method
    if head[1:4] == ZSTD_SKIPPABLE and head[:1] and 0x50 <= head[0] <= 0x5F:
        return "zstd"
    if head[:3] == b"BZh" and head[3:4].isdigit() and head[4:10] in BZ2_BLOCKS:
        return "bz2"
    return None


def expand(name: str, stream: BinaryIO, method: str, budget: Budget) -> BinaryIO:
    """Return the decompressed stream.

    Args:
        name: Source name for messages.
        stream: Compressed bytes, from their beginning.
        method: What `detect_compression` said.
        budget: Limits on size and ratio.
    """
    return PatientReader(_Inflated(name, stream, method, budget))


def detect_utf16(head: bytes) -> str | None:
    """Return the codec of UTF-16 or UTF-32 text, by its byte order mark or its pattern of zero bytes, else None."""
    for mark, codec in (
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF32_BE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(mark):
            return codec
    sample = head[: len(head) & ~1]
    if len(sample) < UTF16_MIN_BYTES:
        return None
    even, odd = sample[::2], sample[1::2]
    zeros_even, zeros_odd = even.count(0) / len(even), odd.count(0) / len(odd)
    if zeros_odd > MOSTLY and zeros_even < HARDLY:  # Latin text has a zero in every second byte
        return "utf-16-le"
    if zeros_even > MOSTLY and zeros_odd < HARDLY:
        return "utf-16-be"
    return None


class _Transcoded(CarefulRaw):
    """UTF-16 in, UTF-8 out; what cannot be decoded becomes U+FFFD."""

    def __init__(self, name: str, below: BinaryIO, codec: str) -> None:
        super().__init__(name, below)
        self._decoder = codecs.getincrementaldecoder(codec)(errors="replace")
        self._pending = b""
        self._end = False

    def produce(self, size: int) -> bytes:
        """Decode until there is something to give."""
        while not self._pending and not self._end:
            data = read_some(self.below, CHUNK)
            self._end = not data
            self._pending = self._decoder.decode(data, final=self._end).encode("utf-8", "replace")
        data, self._pending = self._pending[:size], self._pending[size:]
        return data


def transcode(name: str, stream: BinaryIO, codec: str) -> BinaryIO:
    """Return the stream as UTF-8.

    Args:
        name: Source name for messages.
        stream: Text in another encoding.
        codec: What `detect_utf16` said.
    """
    return PatientReader(_Transcoded(name, stream, codec))
