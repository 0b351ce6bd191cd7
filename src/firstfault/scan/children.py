"""Shares work among forked processes, for inputs of hundreds of files or megabytes: threads wait for the interpreter.

Only where it is safe and worth it: on Linux, from a process with one thread. A child that fails for whatever reason
costs time, never results: its share is done again by the parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["can_fork", "map_in_turn", "map_shares"]

T = TypeVar("T")
_READ_BYTES = 1024 * 1024
# Results are a hundred bytes, as a rule: a child may be far ahead, but not so far that many megabytes wait.
_PIPE_BYTES = 1024 * 1024


def can_fork() -> bool:
    """Whether forking is safe here: a thread may hold a lock that the child would wait for for ever."""
    return sys.platform == "linux" and threading.active_count() == 1


def map_shares(work: Callable[[Sequence[T]], bytes], items: Sequence[T], shares: int) -> list[bytes]:
    """Return `work` of each share of the items, in order; the first share is done here, the others in children.

    Args:
        work: What to do with a share. Its result must be bytes, since it comes through a pipe.
        items: What to share out.
        shares: Into how many parts.
    """
    size = -(-len(items) // shares)
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    children = [_start(work, part) for part in parts[1:]]
    results = [work(parts[0])]
    for part, (process, pipe) in zip(parts[1:], children, strict=True):
        result = _collect(process, pipe)
        results.append(work(part) if result is None else result)
    return results


def _start(work: Callable[[Sequence[T]], bytes], part: Sequence[T]) -> tuple[int, int]:
    reader, writer = os.pipe()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    status = 1
    try:
        _end_with_parent()
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(work(part))
        status = 0
    finally:
        os._exit(status)  # no clean-up of what belongs to the parent


def _end_with_parent() -> None:
    """Let the kernel end this child when its parent is killed; it would work on for nobody."""
    from firstfault.parent import die_with_parent  # noqa: PLC0415 - only in a child

    with contextlib.suppress(OSError):
        die_with_parent(signal.SIGKILL)


def _collect(process: int, reader: int) -> bytes | None:
    """The child's result, or None when it failed."""
    blocks = []
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while block := pipe.read(_READ_BYTES):
            blocks.append(block)
    _, status = os.waitpid(process, 0)
    return b"".join(blocks) if status == 0 else None


def map_in_turn(
    work: Callable[[T, bytes], bytes], items: Sequence[T], processes: int, news: Callable[[], bytes]
) -> Iterator[bytes]:
    """Yield `work` of each item, in order, while each process works on every so many-th item.

    Args:
        work: What to do with an item, and with the latest news ("" before there are any).
        items: What to work on.
        processes: How many, this one included.
        news: What the results so far teach, as bytes of one length, 4096 at most. It may reach a child late or never.
    """
    children: list[_Child] = []
    try:
        for place in range(1, processes):
            children.append(_Child(work, items[place::processes], children, len(news())))
        told = b""
        for index, item in enumerate(items):
            place = index % processes
            if place:
                answer = children[place - 1].answer()
                yield work(item, told) if answer is None else answer
                continue
            if (latest := news()) != told:
                told = latest
                for child in children:
                    child.tell(told)
            yield work(item, told)
    finally:
        for child in children:
            child.close()


class _Child:
    """A child that works on some items, its results, and a way to tell it news."""

    def __init__(
        self, work: Callable[[T, bytes], bytes], items: Sequence[T], others: Sequence[_Child], news_bytes: int
    ) -> None:
        results, write_results = os.pipe()
        read_news, self._news = os.pipe()
        self.descriptors: tuple[int, int] = (results, self._news)
        self._process = os.fork()
        if self._process == 0:
            status = 1
            try:
                _end_with_parent()
                for descriptor in (each for child in (self, *others) for each in child.descriptors):
                    os.close(descriptor)
                _work_in_child(work, items, write_results, (read_news, news_bytes))
                status = 0
            finally:
                os._exit(status)  # no clean-up of what belongs to the parent
        os.close(write_results)
        os.close(read_news)
        os.set_blocking(self._news, False)
        self._results = os.fdopen(results, "rb")

    def answer(self) -> bytes | None:
        """Return the next result, or None when the child failed."""
        size = int.from_bytes(self._results.read(8), "little")
        data = self._results.read(size)
        return data if size and len(data) == size else None

    def tell(self, news: bytes) -> None:
        """Tell news; a child that is too busy to listen works on with what it knows."""
        with contextlib.suppress(OSError):
            os.write(self._news, news)

    def close(self) -> None:
        """Let the child end, since nobody reads any more what it writes, and wait for it."""
        self._results.close()
        os.close(self._news)
        os.waitpid(self._process, 0)


def _work_in_child(work: Callable[[T, bytes], bytes], items: Sequence[T], results: int, news: tuple[int, int]) -> None:
    import fcntl  # noqa: PLC0415 - not on every platform

    news_pipe, news_bytes = news
    os.set_blocking(news_pipe, False)
    with contextlib.suppress(OSError):  # the user has many large pipes already
        fcntl.fcntl(results, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    latest = b""
    with os.fdopen(results, "wb") as pipe:
        for item in items:
            with contextlib.suppress(BlockingIOError):
                latest = os.read(news_pipe, _READ_BYTES)[-news_bytes:] or latest
            answer = work(item, latest)
            pipe.write(len(answer).to_bytes(8, "little") + answer)
            pipe.flush()
