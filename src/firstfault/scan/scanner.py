"""The one pass over the input: source by source, chunk by chunk, engine, then collector, then who wrote what."""

from __future__ import annotations

import io
import os
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from firstfault.catalogue import load_catalogue
from firstfault.errors import InputError
from firstfault.model import Observation, SetAside, SourceInfo, TextLine
from firstfault.scan.children import can_fork, map_in_turn, map_shares
from firstfault.scan.chunks import CHUNK_BYTES, Chunk, file_chunks, make_readable, stream_chunks
from firstfault.scan.engine import Engine, load_engine
from firstfault.scan.lines import Examined, LineCollector, examine
from firstfault.scan.pastes import LONGEST_PASTE, mend_paste
from firstfault.scan.patterns import Pattern, build_patterns
from firstfault.scan.readers import JointAnalysis, NotEvidenceError, detect_reader, detect_source
from firstfault.scan.sources import HEAD_BYTES, Source, SourceProblem
from firstfault.scan.wrapped import whole_messages
from firstfault.scan.writers import attribute_ranks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from concurrent.futures import Future

__all__ = ["ScanProblem", "ScanResult", "Scanner", "shared_scanner"]

BATCH_BYTES = 1024 * 1024
PIECES = 16
# Files up to this size are scanned in one go; from so many on, several processes share them.
SMALL_BYTES = 8 * 1024 * 1024
MANY_FILES = 64
# A file of so many chunks is worth the few milliseconds that forking takes.
MANY_CHUNKS = 16
FEWEST_CHUNKS = 4
# More would wait for memory.
MOST_WORKERS = 16
# Lines that are wanted once are sought in the first chunks, then in a sample.
FIRST_CHUNKS = 8
SAMPLED = 32
FINEST_PIECE = 2048
# A pasted excerpt is looked at line by line: the first line that holds a literal need not be the one that counts.
EXCERPT = 16 * 1024
# What a terminal may have cut, and a page decorated; in JSON a typographic quote is only a letter.
PRINTED_FOR_PEOPLE = frozenset({"kubectl-describe", "kubectl-events", "kubectl-table"})


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
        set_aside: What was not read as output of a run.
    """

    observations: list[Observation]
    sources: list[SourceInfo]
    problems: list[ScanProblem] = []
    set_aside: list[SetAside] = []


class _Part(msgspec.Struct):
    """What came of one source."""

    observations: list[Observation] = []
    infos: list[SourceInfo] = []
    problems: list[ScanProblem] = []
    set_aside: list[SetAside] = []


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


def _noting(lines: Iterable[TextLine], printed: set[str]) -> Iterator[TextLine]:
    """Hand on lines and note their texts."""
    for line in lines:
        printed.add(line.text)
        yield line


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
        self._workers = workers or min(_processors(), MOST_WORKERS)

    def scan(self, sources: Iterable[Source | SourceProblem]) -> ScanResult:
        """Read all sources once."""
        parts: list[_Part] = []
        small: list[tuple[int, Source]] = []
        joint = JointAnalysis()
        for source in sources:
            if isinstance(source, SourceProblem):
                fatal = source.level == "error"
                parts.append(_Part(problems=[ScanProblem(source=source.name, error=str(source.error), fatal=fatal)]))
            elif source.path is not None and (source.size or 0) <= SMALL_BYTES:
                small.append((len(parts), source))
                parts.append(_Part())
            else:
                parts.append(self._scan_one(source, joint))
        for (place, _), part in zip(small, self._scan_small([source for _, source in small], joint), strict=True):
            parts[place] = part
        observations = [item for part in parts for item in part.observations] + self._joint_findings(joint)
        return ScanResult(
            observations=attribute_ranks(observations),
            sources=[info for part in parts for info in part.infos],
            problems=[problem for part in parts for problem in part.problems],
            set_aside=[item for part in parts for item in part.set_aside],
        )

    def _scan_small(self, sources: list[Source], joint: JointAnalysis) -> list[_Part]:
        """Scan small files; where there are many, in several processes."""
        if len(sources) < MANY_FILES or not can_fork():
            return [self._scan_one(source, joint) for source in sources]

        def work(share: Sequence[Source]) -> bytes:
            own = JointAnalysis()
            return pickle.dumps((msgspec.msgpack.encode([self._scan_one(source, own) for source in share]), own))

        import pickle  # noqa: PLC0415 - of our own child's answer, nobody else's

        parts: list[_Part] = []
        for answer in map_shares(work, sources, self._workers):
            encoded, own = pickle.loads(answer)  # noqa: S301 - see above
            parts += msgspec.msgpack.decode(encoded, type=list[_Part])
            joint.merge(own)
        return parts

    def _scan_one(self, source: Source, joint: JointAnalysis) -> _Part:
        collector = LineCollector(self._patterns, source.name, "log")
        problems = []
        try:
            self._scan_source(source, collector, joint)
        except NotEvidenceError as error:
            return _Part(set_aside=[SetAside(name=source.name, kind=error.kind, why=error.why)])
        except InputError as error:
            problems.append(ScanProblem(source=source.name, error=str(error)))
        except OSError as error:  # of a file such as those of /proc, which opens and then cannot be read
            problems.append(ScanProblem(source=source.name, error=f"{source.name}: {error.strerror or error}"))
        return _Part(observations=collector.observations(), infos=[collector.info()], problems=problems)

    def _scan_source(self, source: Source, collector: LineCollector, joint: JointAnalysis) -> None:
        head = source.head()
        reader, collector.kind = detect_source(head, source.path)
        if len(head) < HEAD_BYTES and (reader is None or reader.kind in PRINTED_FOR_PEOPLE):
            mended = mend_paste(head)
            if mended != head and (better := detect_reader(mended)) is not None:
                head, reader, collector.kind = mended, better, better.kind
                source = Source(source.name, lambda: io.BytesIO(mended))
        if reader is None and source.path is not None:
            with source.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                chunks = list(file_chunks(file))
                if len(chunks) >= MANY_CHUNKS and self._workers > 1 and can_fork():
                    self._scan_in_turn(chunks, collector)
                else:
                    self._scan_chunks(iter(chunks), collector)
            if collector.bytes < size:
                raise InputError(
                    f"{source.name}: became shorter while it was read ({size:,} bytes, {collector.bytes:,} were read)",
                    "it was truncated or rotated; give a copy, or the rotated file too",
                )
            return
        with source.open() as stream:
            if reader is None:
                self._scan_chunks(stream_chunks(stream), collector)
            else:
                counted = _CountedStream(stream)
                printed: set[str] = set()
                try:
                    lines = reader.read(counted, source.name, joint)  # type: ignore[arg-type]
                    self._scan_lines(_noting(lines, printed) if len(head) <= EXCERPT else lines, collector)
                finally:
                    collector.bytes, collector.lines = counted.bytes, None
                if len(head) <= EXCERPT:
                    self._scan_whole_messages(head, collector, printed)

    def _scan_lines(self, lines: Iterable[TextLine], collector: LineCollector) -> None:
        """Scan what a reader prints, a buffer at a time."""
        batch: list[TextLine] = []
        size = 0
        try:
            for line in lines:
                batch.append(line)
                size += len(line.text)
                if size > BATCH_BYTES:
                    self._scan_batch(batch, collector)
                    batch, size = [], 0
        finally:
            # Also when the stream breaks in the middle.
            if batch:
                self._scan_batch(batch, collector)

    def _scan_whole_messages(
        self, data: bytes, collector: LineCollector, printed: AbstractSet[str] | None = None
    ) -> None:
        """Scan what a paste took apart; of what a reader read, only the lines that it handed on as they are."""
        text = make_readable(data).decode("utf-8", "replace")
        if printed is not None:
            text = "\n".join(line if line.rstrip("\r") in printed else "" for line in text.split("\n"))
        self._scan_batch(list(whole_messages(text)), collector)

    def _scan_batch(self, batch: list[TextLine], collector: LineCollector) -> None:
        starts: list[int] = []
        parts: list[bytes] = []
        position = 0
        for line in batch:
            # One line of a reader stays one line of the buffer: a message may hold line ends of its own.
            part = make_readable(line.text.encode("utf-8", "replace")).replace(b"\n", b" ")
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

    def _scan_chunks(self, chunks: Iterator[Chunk], collector: LineCollector) -> None:
        """Examine chunks in parallel, take the results in order; only a few chunks are in memory at a time."""
        first = next(chunks, None)
        if first is None:
            return
        if first.is_last:
            data = first.read()
            collector.add(self._examine(first, frozenset(), data))
            if len(data) <= EXCERPT:
                self._scan_whole_messages(data, collector)
            next(chunks, None)  # a damaged stream says so behind its last chunk
            return
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - not needed for small inputs

        with ThreadPoolExecutor(self._workers) as pool:
            waiting: deque[Future[Examined]] = deque([pool.submit(self._examine, first, collector.saturated)])
            try:
                for chunk in chunks:
                    waiting.append(pool.submit(self._examine, chunk, collector.saturated))
                    if len(waiting) > 2 * self._workers:
                        collector.add(waiting.popleft().result())
            finally:
                # Also when the stream breaks: the last lines before the damage are the ones that matter.
                while waiting:
                    collector.add(waiting.popleft().result())

    def _scan_in_turn(self, chunks: Sequence[Chunk], collector: LineCollector) -> None:
        """Examine the chunks of a large file in several processes; threads would wait for the interpreter."""
        # Having let go of a large block, glibc's malloc keeps smaller ones instead of fetching pages for each anew.
        bytes(8 * CHUNK_BYTES)
        table = range(len(self._patterns))
        width = len(table) // 8 + 1
        known: dict[bytes, frozenset[int]] = {b"": frozenset()}

        def work(chunk: Chunk, saturated: bytes) -> bytes:
            if saturated not in known:
                bits = int.from_bytes(saturated, "little")
                known[saturated] = frozenset(index for index in table if bits >> index & 1)
            return msgspec.msgpack.encode(self._examine(chunk, known[saturated]))

        def news() -> bytes:
            return sum(1 << index for index in collector.saturated).to_bytes(width, "little")

        processes = min(self._workers, len(chunks) // FEWEST_CHUNKS)
        for answer in map_in_turn(work, chunks, processes, news):
            collector.add(msgspec.msgpack.decode(answer, type=Examined))

    def _examine(self, chunk: Chunk, saturated: AbstractSet[int], data: bytes | None = None) -> Examined:
        if data is None:
            data = chunk.read()
        readable = make_readable(data)
        if chunk.is_last and not chunk.number and len(readable) <= LONGEST_PASTE:
            readable = mend_paste(readable)
        # The last chunk in small pieces: of lines wanted once per piece, the last ones of the source are seen too.
        fine = 1 if len(data) <= EXCERPT else max(FINEST_PIECE, len(data) // PIECES)
        piece = fine if chunk.is_last else 0
        once = chunk.is_last or chunk.number < FIRST_CHUNKS or chunk.number % SAMPLED == 0
        return examine(data, readable, self._engine.find(readable, piece, once=once), saturated)


def _processors() -> int:
    """How many processors this process may use; a container's or a batch job's share, where the kernel tells it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def shared_scanner() -> Scanner:
    """Return the scanner over the shipped catalogue, built once per process."""
    patterns = build_patterns(load_catalogue())
    return Scanner(patterns, load_engine(patterns))
