"""Waits for work in threads so that a signal is never lost on the way to sleep.

Python handles a signal between two steps of the main thread. One that comes while that thread gives the interpreter
away to go to sleep waits until it wakes up; so nobody here sleeps for longer than a moment at a time.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["completed"]

Result = TypeVar("Result")

_MOMENT_S = 0.2


def completed(futures: Iterable[Future[Result]]) -> Iterator[Future[Result]]:
    """Yield the futures as they complete; a signal handler runs within 0.2 s, however long they take."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=_MOMENT_S, return_when=FIRST_COMPLETED)
        yield from done
