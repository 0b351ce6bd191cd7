"""Threads that fetch side by side, and for which nobody waits who was told to end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from firstfault.waiting import completed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["fetch_all"]

Wanted = TypeVar("Wanted")
Fetched = TypeVar("Fetched")


def fetch_all(fetch: Callable[[Wanted], Fetched], wanted: Iterable[Wanted], *, threads: int) -> list[Fetched]:
    """Fetch each thing that is wanted, and return what came of it in the same order.

    What was begun is waited for, except after an interrupt: a call may take its ten seconds, an `exec` longer, and the
    folder that they write to is about to go.

    Args:
        fetch: Fetches one; called in threads.
        wanted: What to fetch.
        threads: How many are fetched at a time.

    Raises:
        Exception: The first one that `fetch` raised; what had not begun is left out.
    """
    pool = ThreadPoolExecutor(threads)
    try:
        futures = [pool.submit(fetch, each) for each in wanted]
        for future in completed(futures):
            future.result()
    except Exception:
        pool.shutdown(cancel_futures=True)
        raise
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
    return [future.result() for future in futures]
