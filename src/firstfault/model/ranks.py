"""Sets of ranks as people and reports write them: `0-3,7` in text, [[0, 3], [7, 7]] in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["rank_ranges", "rank_text"]


def rank_ranges(ranks: Iterable[int]) -> list[list[int]]:
    """Return inclusive ranges, sorted."""
    ranges: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if ranges and rank == ranges[-1][1] + 1:
            ranges[-1][1] = rank
        else:
            ranges.append([rank, rank])
    return ranges


def rank_text(ranks: Iterable[int]) -> str:
    """Return ranges as text; "none" for no rank."""
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in rank_ranges(ranks)) or "none"
