"""Says which rank wrote a line that does not say so itself.

In falling order of trust: the line's own prefix or reader; a line of the same process that names its rank (NCCL prints
`comm … rank r` beside host:pid); the only rank that the whole source speaks of; the name of the file.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec

from firstfault.model import Observation
from firstfault.scan.prefix import rank_from_name

__all__ = ["attribute_ranks"]

_RANK_FIELDS = ("rank", "rank_lightning", "rank_env")
_NAMES_ITS_WRITER = "signal/"


def attribute_ranks(observations: list[Observation]) -> list[Observation]:
    """Return the observations with ranks filled in where they can be told."""
    of_stream = _ranks_of_streams(observations)
    of_source = _ranks_of_sources(observations)
    filled = []
    for item in observations:
        if item.rank is not None:
            filled.append(item)
            continue
        rank = _own_rank(item)
        if rank is None:
            rank = of_stream.get((item.source, item.stream)) if item.stream else None
        if rank is None:
            rank = of_source.get(item.source)
        filled.append(item if rank is None else msgspec.structs.replace(item, rank=rank))
    return filled


def _own_rank(item: Observation) -> int | None:
    if not item.signature.startswith(_NAMES_ITS_WRITER):
        return None
    return next((int(item.fields[name]) for name in _RANK_FIELDS if name in item.fields), None)


def _ranks_of_streams(observations: list[Observation]) -> dict[tuple[str, str], int]:
    named: dict[tuple[str, str], int] = {}
    for item in observations:
        # The first communicator of a process is the world; later ones may number ranks within a subgroup.
        if item.stream and (rank := _own_rank(item)) is not None:
            named.setdefault((item.source, item.stream), rank)
    return named


def _ranks_of_sources(observations: list[Observation]) -> dict[str, int]:
    spoken: dict[str, set[int]] = defaultdict(set)
    sources: dict[str, None] = {}
    for item in observations:
        sources[item.source] = None
        rank = item.rank if item.rank is not None else _own_rank(item)
        if rank is not None:
            spoken[item.source].add(rank)
    named: dict[str, int] = {}
    for source in sources:
        ranks = spoken[source]
        if len(ranks) == 1:
            named[source] = next(iter(ranks))
        elif not ranks and (rank := rank_from_name(source)) is not None:
            named[source] = rank
    return named
