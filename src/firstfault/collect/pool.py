"""Threads that fetch side by side, and for which nobody waits who was told to end."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["fetching_pool"]


@contextlib.contextmanager
def fetching_pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Give a pool of threads, and wait at the end for what they are doing, but not after an interrupt.

    Args:
        threads: How many.
    """
    pool = ThreadPoolExecutor(threads)
    try:
        yield pool
    except Exception:
        pool.shutdown(cancel_futures=True)
        raise
    except BaseException:
        # A call may take its ten seconds, an `exec` longer; the folder that they write to is about to go.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()
