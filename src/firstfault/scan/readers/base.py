"""What every reader is, and how it walks lines and documents within limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, runtime_checkable

import msgspec

from firstfault.errors import InputError, LimitError
from firstfault.model import TextLine
from firstfault.scan.limits import DEFAULT_LIMITS, MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.scan.readers.joint import JointAnalysis

__all__ = [
    "BEGINNING",
    "HEAD_IS_ALL",
    "MAX_LINE_BYTES",
    "NotEvidenceError",
    "RawLine",
    "Reader",
    "in_order",
    "iter_lines",
    "plain_line",
    "plain_lines",
    "read_document",
]

MAX_LINE_BYTES = 64 * MIB
# A head shorter than this is the whole source. In a longer one, text that only quotes a format must not decide: there,
# the first lines count.
HEAD_IS_ALL = 60_000
BEGINNING = 8192


class NotEvidenceError(InputError):
    """A source turns out to be nothing that a run printed. It is set aside, which is no failure.

    Args:
        source_name: Name of the source.
        kind: What it is instead, for the report.
        why: What gives it away.
    """

    def __init__(self, source_name: str, kind: str, why: str) -> None:
        super().__init__(f"{source_name}: {why}")
        self.kind = kind
        self.why = why


@runtime_checkable
class Reader(Protocol):
    """Turns one structured source into text lines in the grammar of docs/canonical-lines.md.

    Attributes:
        kind: What the source is, as the report names it.
    """

    kind: str

    def detect(self, head: bytes) -> bool:
        """Say whether a source that begins with these bytes (at most 64 KiB) is of this kind."""
        ...

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield the facts of the source. Content that turns out not to be of this kind is handed on as plain lines.

        Args:
            stream: The source from its beginning.
            source_name: For messages, and for `joint`.
            joint: Takes what only several sources together can tell; None if nobody asks for that.

        Raises:
            NotEvidenceError: The source is nothing that a run printed; before the first line, never after one.
            InputError: The stream is damaged.
            LimitError: A document or line is too large.
        """
        ...


class RawLine(NamedTuple):
    """A line as it stands in the source: 1-based number, byte offset, bytes without the line ending."""

    number: int
    offset: int
    data: bytes


def iter_lines(stream: BinaryIO, limit: int = MAX_LINE_BYTES) -> Iterator[RawLine]:
    """Yield the lines of a stream. A line longer than `limit` bytes comes in pieces that bear the same number."""
    number = 1
    offset = 0
    while data := stream.readline(limit):
        yield RawLine(number, offset, data.rstrip(b"\r\n") if data.endswith(b"\n") else data)
        offset += len(data)
        number += data.endswith(b"\n")


def in_order(lines: Iterable[TextLine]) -> Iterator[TextLine]:
    """Hand on lines of records, each with its place in the order in which they come where line numbers do not tell it.

    A record may hold a whole traceback, or the log of a job, in one line of the source.
    """
    surplus = 0
    line = 0
    for text in lines:
        if text.line is None or text.line == line:
            surplus += 1
        line = line if text.line is None else text.line
        yield msgspec.structs.replace(text, place=line + surplus) if surplus else text


def plain_line(raw: RawLine) -> Iterator[TextLine]:
    """Yield a line as it is; nothing for one that is blank."""
    text = raw.data.decode("utf-8", "replace").rstrip("\r\n")
    if text.strip():
        yield TextLine(text=text, line=raw.number, offset=raw.offset)


def plain_lines(data: bytes, first_line: int = 1, offset: int = 0) -> Iterator[TextLine]:
    """Yield the lines of a text as they are, without blank ones."""
    for number, line in enumerate(data.split(b"\n"), start=first_line):
        yield from plain_line(RawLine(number, offset, line))
        offset += len(line) + 1


def read_document(stream: BinaryIO, source_name: str, limit: int = DEFAULT_LIMITS.max_document_bytes) -> bytes:
    """Read a document that is only understood as a whole.

    Raises:
        LimitError: It is larger than `limit` bytes.
    """
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise LimitError(
            f"{source_name}: a structured document of more than {limit:,} bytes",
            "export the objects of the failed job only, or one kind at a time",
        )
    return data
