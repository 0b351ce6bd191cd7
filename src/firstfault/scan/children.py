"""Shares work among forked processes, for inputs of hundreds of files, where Python itself is what takes the time.

Only where it is safe and worth it: on Linux, from a process with one thread. A child that fails for whatever reason
costs time, never results: its share is done again by the parent.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["can_fork", "map_shares"]

T = TypeVar("T")
_READ_BYTES = 1024 * 1024


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
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(work(part))
        status = 0
    finally:
        os._exit(status)  # no clean-up of what belongs to the parent


def _collect(process: int, reader: int) -> bytes | None:
    """The child's result, or None when it failed."""
    blocks = []
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while block := pipe.read(_READ_BYTES):
            blocks.append(block)
    _, status = os.waitpid(process, 0)
    return b"".join(blocks) if status == 0 else None
