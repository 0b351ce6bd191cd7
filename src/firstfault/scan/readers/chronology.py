"""Puts records in the order in which they were written; log backends give the newest first as often as not."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LATEST_PLACE", "is_newest_first", "oldest_first"]

LATEST_PLACE = 1 << 52
"""Records that come newest first and are too many to be kept are counted down from here (see `TextLine.place`)."""


def is_newest_first(times: Sequence[float | None]) -> bool:
    """Say whether times fall rather than rise, from each known one to the next."""
    known = [time for time in times if time is not None]
    falls = sum(later < earlier for earlier, later in pairwise(known))
    rises = sum(later > earlier for earlier, later in pairwise(known))
    return falls > rises


def oldest_first(times: Sequence[float | None]) -> list[int]:
    """Return the order in which records were written, as indexes.

    Records of the same time keep their order, or are turned round with all others. Where a time is missing, all that
    is done is to turn the whole round.

    Args:
        times: The time of each record, as far as it has one.
    """
    order = list(range(len(times)))
    if is_newest_first(times):
        order.reverse()
    if None not in times:
        order.sort(key=lambda index: times[index] or 0.0)
    return order
