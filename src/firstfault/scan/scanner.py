"""The one pass over the input: source by source, chunk by chunk, engine, then collector, then who wrote what."""

from __future__ import annotations

import os
import re
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from firstfault.catalogue import load_catalogue
from firstfault.errors import InputError
from firstfault.model import Observation, SourceInfo, TextLine
from firstfault.scan.engine import Candidate, Engine, load_engine
from firstfault.scan.lines import LineCollector
from firstfault.scan.patterns import Pattern, build_patterns
from firstfault.scan.readers import JointAnalysis, classify_text, detect_reader
from firstfault.scan.sources import Source, SourceProblem
from firstfault.scan.writers import attribute_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["ScanProblem", "ScanResult", "Scanner", "shared_scanner"]

CHUNK_BYTES = 4 * 1024 * 1024
PIECES = 64
FINEST_PIECE = 1024

# the chunk as read, the same made readable (of the same length), the candidates in it
_Found = tuple[bytes, bytes, list[Candidate]]
_COLOURED_LINE = re.compile(rb"[^\n]*\x1b[^\n]*")
_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")


class ScanProblem(msgspec.Struct, frozen=True, kw_only=True):
    """An input that was not read, or not to its end, and why.

    Attributes:
        fatal: The user named it and it failed: exit code 2.
    """

    source: str
    error: str
    fatal: bool = True


class ScanResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass over the input found.

    Attributes:
        observations: By source in the order of reading, by position within each.
        sources: What was read.
        problems: What could not be read.
    """

    observations: list[Observation]
    sources: list[SourceInfo]
    problems: list[ScanProblem] = []


class _CountedStream:
    """A stream that knows how many bytes went through it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Read as the stream does."""
        data = self._stream.read(size)
        self.bytes += len(data)
        return data

    def readline(self, limit: int = -1) -> bytes:
        """Read a line as the stream does."""
        data = self._stream.readline(limit)
        self.bytes += len(data)
        return data


class Scanner:
    """Patterns and engine, ready for any number of passes.

    Args:
        patterns: What to look for.
        engine: What looks.
        workers: Threads that scan; more than one helps for inputs of many megabytes.
    """

    def __init__(self, patterns: list[Pattern], engine: Engine, workers: int | None = None) -> None:
        self._patterns = patterns
        self._engine = engine
        self._workers = workers or os.cpu_count() or 1

    def scan(self, sources: Iterable[Source | SourceProblem]) -> ScanResult:
        """Read all sources once."""
        observations: list[Observation] = []
        infos: list[SourceInfo] = []
        problems: list[ScanProblem] = []
        joint = JointAnalysis()
        for source in sources:
            if isinstance(source, SourceProblem):
                problems.append(ScanProblem(source=source.name, error=str(source.error), fatal=source.level == "error"))
                continue
            collector = LineCollector(self._patterns, source.name, "log")
            try:
                self._scan_source(source, collector, joint)
            except (InputError, OSError) as error:
                problems.append(ScanProblem(source=source.name, error=str(error)))
            observations += collector.observations()
            infos.append(collector.info())
        observations += self._joint_findings(joint)
        return ScanResult(observations=attribute_ranks(observations), sources=infos, problems=problems)

    def _scan_source(self, source: Source, collector: LineCollector, joint: JointAnalysis) -> None:
        head = source.head()
        reader = detect_reader(head)
        collector.kind = reader.kind if reader else classify_text(head)
        with source.open() as stream:
            if reader is None:
                self._scan_stream(stream, collector)
            else:
                counted = _CountedStream(stream)
                self._scan_lines(reader.read(counted, source.name, joint), collector)  # type: ignore[arg-type]
                collector.bytes, collector.lines = counted.bytes, None

    def _scan_lines(self, lines: Iterable[TextLine], collector: LineCollector) -> None:
        """Scan what a reader prints, a buffer at a time."""
        batch: list[TextLine] = []
        size = 0
        for line in lines:
            batch.append(line)
            size += len(line.text)
            if size > CHUNK_BYTES:
                self._scan_batch(batch, collector)
                batch, size = [], 0
        if batch:
            self._scan_batch(batch, collector)

    def _scan_batch(self, batch: list[TextLine], collector: LineCollector) -> None:
        starts: list[int] = []
        parts: list[bytes] = []
        position = 0
        for line in batch:
            # One line of a reader stays one line of the buffer: a message may hold line ends of its own.
            part = _readable(line.text.encode("utf-8", "replace")).replace(b"\n", b" ")
            starts.append(position)
            parts.append(part)
            position += len(part) + 1
        collector.add_text_lines(batch, starts, self._engine.find(b"\n".join(parts)))

    def _joint_findings(self, joint: JointAnalysis) -> list[Observation]:
        """What only several sources together tell, such as two dumps of the flight recorder."""
        collectors: dict[str, LineCollector] = {}
        for name, line in joint.finish():
            collector = collectors.setdefault(name, LineCollector(self._patterns, name, "joint"))
            self._scan_batch([line], collector)
        return [item for collector in collectors.values() for item in collector.observations()]

    def _scan_stream(self, stream: BinaryIO, collector: LineCollector) -> None:
        chunks = _chunks(stream)
        chunk = next(chunks, b"")
        following = next(chunks, None)
        if following is None:
            collector.add_chunk(*self._find_finely(chunk))
            return
        with ThreadPoolExecutor(self._workers) as pool:
            waiting: deque[Future[_Found]] = deque()
            while following is not None:
                waiting.append(pool.submit(self._find, chunk))
                if len(waiting) > self._workers + 1:
                    collector.add_chunk(*waiting.popleft().result())
                chunk, following = following, next(chunks, None)
            waiting.append(pool.submit(self._find_finely, chunk))
            while waiting:
                collector.add_chunk(*waiting.popleft().result())

    def _find(self, chunk: bytes) -> _Found:
        readable = _readable(chunk)
        return chunk, readable, self._engine.find(readable)

    def _find_finely(self, chunk: bytes) -> _Found:
        """As `_find`, in small pieces: of lines wanted once per piece, the last ones of the source are seen too."""
        readable = _readable(chunk)
        return chunk, readable, self._engine.find(readable, max(FINEST_PIECE, len(readable) // PIECES))


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    """Yield chunks of whole lines; a line longer than a chunk is cut."""
    carry = b""
    while data := stream.read(CHUNK_BYTES):
        data = carry + data if carry else data
        cut = data.rfind(b"\n") + 1
        if not cut and len(data) >= CHUNK_BYTES:
            cut = len(data)
        if cut:
            yield data[:cut]
        carry = data[cut:]
    if carry:
        yield carry


def _readable(chunk: bytes) -> bytes:
    """Take colours out and let progress bars (lone CR) and CRLF end lines, without moving the start of any line."""
    if b"\x1b" in chunk:
        chunk = _COLOURED_LINE.sub(lambda found: _ESCAPE.sub(b"", found[0]).ljust(len(found[0])), chunk)
    return chunk.replace(b"\r", b"\n") if b"\r" in chunk else chunk


@cache
def shared_scanner() -> Scanner:
    """Return the scanner over the shipped catalogue, built once per process."""
    patterns = build_patterns(load_catalogue())
    return Scanner(patterns, load_engine(patterns))
