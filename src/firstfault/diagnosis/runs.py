"""Tells the runs of one input apart, where it surely holds several: each is diagnosed on its own.

Ranks of different runs have the same numbers, so what one run reached would speak for a rank of another. Runs are told
apart by the folders (or archives, or whole files) that their logs lie in, when the same global rank began in each of
them. What lies outside all of those folders (kernel logs, events, descriptions of Pods and nodes) belongs to every run.

In doubt it is one run: a folder for each host or rank, further attempts of one run, copies of the same logs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.model import Observation
    from firstfault.scan import ScanResult

__all__ = ["Run", "split_runs"]

MOST_RUNS = 64
_STATED = "signal/world.rank"
_NCCL = "signal/nccl.init-start"
_STATED_FIELDS = ("rank", "rank_lightning", "rank_env")
_COMM_ID = re.compile(r"\bcommId (0x[0-9a-f]+)")
_HOST = re.compile(r"(?P<host>.+):\d+(?:\[|$)")
_SEPARATOR = re.compile(r"[/!]")
# Folders of one run's attempts, and of what a restarted container printed before.
_ATTEMPT = re.compile(r"attempt|restart|retr(?:y|ies)\b|previous|\bprev\b|incarnation", re.IGNORECASE)


@dataclass
class Run:
    """One run of the input.

    Attributes:
        folder: The folder, archive or file that holds its logs; "" for the whole input.
        result: What was seen of it and of what belongs to all runs.
    """

    folder: str
    result: ScanResult


@dataclass
class _Part:
    """What the sources under one path say of the run that wrote them.

    Attributes:
        stated: Global rank → the line that states it.
        placed: (host, rank) of NCCL's first communicators.
        communicators: Ids of communicators, the same on all of their ranks and on no others.
        began: Rank → the sources in which it began.
    """

    stated: dict[int, str] = field(default_factory=dict)
    placed: set[tuple[str, int]] = field(default_factory=set)
    communicators: set[str] = field(default_factory=set)
    began: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, other: _Part) -> None:
        """Take in another part of the same run."""
        self.stated |= other.stated
        self.placed |= other.placed
        self.communicators |= other.communicators
        for rank, sources in other.began.items():
            self.began[rank] |= sources

    @property
    def began_twice(self) -> bool:
        """Whether a rank began in two sources."""
        return any(len(sources) > 1 for sources in self.began.values())


def split_runs(result: ScanResult) -> list[Run]:
    """Return the runs of an input; the whole of it as one run where it does not surely hold several."""
    whole = [Run("", result)]
    parts = _begun_in(result.observations)
    together = _Part()
    for part in parts.values():
        together.add(part)
    if not together.began_twice:
        return whole
    folders = _folders(parts)
    groups = _same_communicators(folders)
    if not 2 <= len(groups) <= MOST_RUNS or any(_ATTEMPT.search(part) for part in _where_they_part(folders)):
        return whole
    if not all(_are_two_runs(_joined(one, folders), _joined(other, folders)) for one, other in combinations(groups, 2)):
        return whole
    return [_of(result, group, folders) for group in groups]


def _begun_in(observations: list[Observation]) -> dict[str, _Part]:
    """Source → what it says of the ranks that began in it; sources without such lines are left out."""
    parts: dict[str, _Part] = {}
    streams: set[tuple[str, str]] = set()
    for item in observations:
        if item.signature == _STATED:
            rank = next((int(item.fields[name]) for name in _STATED_FIELDS if name in item.fields), None)
            if rank is not None:
                part = parts.setdefault(item.source, _Part())
                part.stated.setdefault(rank, item.text)
                part.began[rank].add(item.source)
        elif item.signature == _NCCL:
            part = parts.setdefault(item.source, _Part())
            if found := _COMM_ID.search(item.text):
                part.communicators.add(found[1])
            # Later communicators of a process may number the ranks of a subgroup.
            first = (item.source, item.stream) not in streams
            streams.add((item.source, item.stream))
            if first and item.fields["world"] != "1":
                host = _HOST.match(item.stream)
                part.placed.add((host["host"] if host else "", int(item.fields["rank"])))
                part.began[int(item.fields["rank"])].add(item.source)
    return parts


def _folders(parts: dict[str, _Part]) -> dict[str, _Part]:
    """The highest folders in none of which a rank began twice, and what their sources say."""
    paths = {source: _prefixes(source) for source in parts}
    folders: dict[str, _Part] = {}
    for depth in range(max(map(len, paths.values()))):
        folders = {}
        for source, part in parts.items():
            path = paths[source]
            folders.setdefault(path[min(depth, len(path) - 1)], _Part()).add(part)
        if not any(part.began_twice for part in folders.values()):
            break
    return folders


def _prefixes(name: str) -> list[str]:
    """The folders and archives that hold a source, outermost first, then the source itself."""
    return [*(name[: found.start()] for found in _SEPARATOR.finditer(name) if found.start()), name]


def _where_they_part(folders: Iterable[str]) -> Iterator[str]:
    """The parts of the folders' paths that are not common to all of them."""
    paths = [_SEPARATOR.split(folder) for folder in folders]
    shared = 0
    while all(len(path) > shared + 1 for path in paths) and len({path[shared] for path in paths}) == 1:
        shared += 1
    for path in paths:
        yield from path[shared:]


def _same_communicators(folders: dict[str, _Part]) -> list[list[str]]:
    """Folders in groups: those that name the same communicator are of one run."""
    group_of: dict[str, list[str]] = {}
    known: dict[str, str] = {}
    for folder, part in folders.items():
        group_of[folder] = [folder]
        for comm in part.communicators:
            mine, other = group_of[folder], group_of[known.setdefault(comm, folder)]
            if mine is not other:
                other += mine
                for each in mine:
                    group_of[each] = other
    return list({id(group): group for group in group_of.values()}.values())


def _joined(group: list[str], folders: dict[str, _Part]) -> _Part:
    joined = _Part()
    for folder in group:
        joined.add(folders[folder])
    return joined


def _are_two_runs(one: _Part, other: _Part) -> bool:
    """Whether the same global rank surely began in both, and not in a copy of the same log.

    NCCL's own numbers may be those of a subgroup on each machine: they count where the same machine has them twice,
    and several ranks on either side.
    """
    stated = one.stated.keys() & other.stated.keys()
    if stated:
        known = one.communicators or other.communicators
        return bool(known) or any(one.stated[rank] != other.stated[rank] for rank in stated)
    several = len(one.began) > 1 and len(other.began) > 1
    return several and any(host for host, _ in one.placed & other.placed)


def _of(result: ScanResult, group: list[str], folders: dict[str, _Part]) -> Run:
    """The run of a group of folders: its own sources and those that lie in no run's folder."""
    own = set(group)

    def belongs(source: str) -> bool:
        held = [prefix for prefix in _prefixes(source) if prefix in folders]
        return not held or held[-1] in own

    known = {name: belongs(name) for name in {item.source for item in result.observations}}
    return Run(
        group[0],
        msgspec.structs.replace(
            result,
            observations=[item for item in result.observations if known[item.source]],
            sources=[info for info in result.sources if belongs(info.name)],
        ),
    )
