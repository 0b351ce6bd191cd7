"""Compares the flight-recorder dumps of many ranks: who never arrived, who called something else, who waits for whom.

Collectives of one process group bear the same sequence number on every rank. The first one that somebody waits in is
looked at: a rank that never enqueued it is the one that everybody waits for, unless it waits itself in another group.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from firstfault.model import TextLine
from firstfault.model.ranks import rank_text

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

__all__ = ["Dump", "Entry", "Finding", "Group", "analyse_dumps"]

# Operations in which every rank must bring the same number of elements. Not in it: all-to-all, gather and scatter,
# where ranks may differ, and reduce-scatter lists.
SAME_SIZE = frozenset({
    "all_reduce", "allreduce", "allreduce_coalesced", "all_gather", "allgather", "_all_gather_base", "_allgather_base",
    "allgather_into_tensor_coalesced", "ALLGATHER_coalesced", "broadcast", "_broadcast_oop", "reduce", "_reduce_oop",
    "_reduce_scatter_base", "reduce_scatter_tensor_coalesced",
})  # fmt: skip


class Group(msgspec.Struct, frozen=True):
    """A process group as one rank knows it."""

    desc: str
    members: list[int]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One operation that a rank enqueued.

    Attributes:
        group: Name of the process group.
        group_id: Number of the group within the process.
        seq: Sequence number among collectives, or among point-to-point operations, of the group.
        op: `all_reduce`, `send 1->2`, ...
        done: Whether it is known to be over.
        tells_start: Whether the backend records when the device began with it.
        input_sizes: Elements of each input tensor.
        created: When it was enqueued, seconds since the epoch.
        frame: The caller's place in the program; "" if not recorded.
    """

    group: str
    group_id: str
    seq: int
    op: str
    peer_to_peer: bool
    state: str
    done: bool
    tells_start: bool
    input_sizes: tuple[int, ...]
    input_types: tuple[str, ...]
    created: float | None
    frame: str


class Dump(msgspec.Struct, frozen=True, kw_only=True):
    """The dump of one rank; the rank is None where neither the file nor its name tells."""

    rank: int | None
    version: str
    groups: dict[str, Group]
    entries: list[Entry]
    last_enqueued: dict[str, int]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong in one group.

    Attributes:
        kind: `never-arrived`, `type-mismatch`, `size-mismatch`, `dtype-mismatch`, `not-started`, `partly-completed`,
            `all-started` (all enqueued it, none finished), `no-dump`, `p2p-unmatched`, `cross-wait` (ranks wait for
            each other in different groups: they call collectives in different order).
        ranks: The ranks that the finding blames, or that it is about where nobody can be blamed.
        waiting: Ranks that wait in the operation.
    """

    kind: str
    ranks: frozenset[int]
    group: str
    seq: int
    op: str
    detail: str = ""
    waiting: frozenset[int] = frozenset()
    time: float | None = None

    def text(self) -> str:
        """Return the canonical line."""
        return (
            f"flight-recorder {self.kind} ranks={rank_text(self.ranks)} pg={self.group} seq={self.seq} op={self.op}"
            f"{self.detail}"
        )


BLAMES = frozenset(
    {"never-arrived", "type-mismatch", "size-mismatch", "dtype-mismatch", "not-started", "p2p-unmatched"}
)


def analyse_dumps(payloads: Iterable[tuple[str, Dump]]) -> list[tuple[str, TextLine]]:
    """Return the findings as (source name, line); of several dumps of one rank the last one counts."""
    sources: dict[int, str] = {}
    dumps: dict[int, Dump] = {}
    for source, dump in payloads:
        if dump.rank is not None:
            sources[dump.rank], dumps[dump.rank] = source, dump
    findings = [finding for group in _groups(dumps) for finding in group.findings()]
    findings.sort(key=lambda finding: (finding.time is None, finding.time or 0.0, finding.group, finding.seq))
    lines = [(_source(finding, sources), _line(finding.text(), finding)) for finding in findings]
    root = _root(findings)
    if root is not None and root.kind == "cross-wait":
        lines.append((_source(root, sources), _line(root.text(), root)))
    elif root is not None:
        text = (
            f"flight-recorder culprit ranks={rank_text(root.ranks)} because={root.kind} pg={root.group} "
            f"seq={root.seq} op={root.op}"
        )
        lines.append((_source(root, sources), _line(text, root)))
    return lines


def _line(text: str, finding: Finding) -> TextLine:
    rank = next(iter(finding.ranks)) if len(finding.ranks) == 1 else None
    return TextLine(text=text, rank=rank, time=finding.time)


def _source(finding: Finding, sources: dict[int, str]) -> str:
    """Return the dump that shows the finding: of the blamed rank if there is one, else of a rank that waits."""
    ranks = [*sorted(finding.ranks), *sorted(finding.waiting), *sorted(sources)]
    return next(sources[rank] for rank in ranks if rank in sources)


def _root(findings: list[Finding]) -> Finding | None:
    """Return the finding whose blamed ranks do not wait for somebody else in another group; None if that is unclear.

    If all of them do, they wait for each other.
    """
    blaming = [finding for finding in findings if finding.kind in BLAMES]
    mismatch = [finding for finding in blaming if finding.kind.endswith("mismatch")]
    if mismatch:
        return mismatch[0]
    free = {
        index: finding.ranks.difference(*(other.waiting for other in findings if other is not finding))
        for index, finding in enumerate(blaming)
    }
    roots = [index for index, ranks in free.items() if ranks]
    if not blaming or any(finding.kind == "no-dump" for finding in findings):
        return None
    if not roots:
        everybody = frozenset().union(*(finding.ranks for finding in blaming))
        return msgspec.structs.replace(blaming[0], kind="cross-wait", ranks=everybody, detail="")
    return msgspec.structs.replace(blaming[roots[0]], ranks=frozenset().union(*(free[index] for index in roots)))


class _GroupView:
    """All that is known of one group over all ranks.

    Args:
        name: Name of the group.
        members: Its ranks, as the dumps say; the ranks with entries if they do not.
        entries: Entries of the group by rank; a rank with a dump but without entries has an empty list.
        enqueued: The last sequence number by rank as the status says.
    """

    def __init__(
        self, name: str, members: list[int], entries: dict[int, list[Entry]], enqueued: dict[int, int]
    ) -> None:
        self.name = name
        self.members = members
        self.entries = entries
        self.collectives: dict[int, dict[int, list[Entry]]] = {}
        for rank, found in entries.items():
            by_seq: dict[int, list[Entry]] = {}
            for entry in found:
                if not entry.peer_to_peer and entry.seq >= 0:
                    by_seq.setdefault(entry.seq, []).append(entry)
            self.collectives[rank] = by_seq
        self.last = {rank: max([*by_seq, enqueued.get(rank, -1), 0]) for rank, by_seq in self.collectives.items()}

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong, the root of it first."""
        mismatch = self._mismatch()
        if mismatch is not None:
            yield mismatch
        else:
            yield from self._stuck()
        yield from self._unmatched_sends()

    def _finding(self, kind: str, ranks: Iterable[int], seq: int, op: str, **more: object) -> Finding:
        waiting = self._waiting(seq)
        times = [
            entry.created for rank in waiting for entry in self.collectives[rank][seq] if entry.created is not None
        ]
        return msgspec.convert(
            {
                "kind": kind,
                "ranks": frozenset(ranks),
                "group": self.name,
                "seq": seq,
                "op": op,
                "waiting": frozenset(waiting),
                "time": min(times, default=None),
                **more,
            },
            Finding,
        )

    def _waiting(self, seq: int) -> list[int]:
        """Return the ranks that wait in a collective.

        gloo retires failed work like finished work, so there a rank waits in whatever another one has not enqueued.
        """
        behind = min(self.last.values()) < seq
        return [
            rank
            for rank, by_seq in self.collectives.items()
            if any(not entry.done or (behind and not entry.tells_start) for entry in by_seq.get(seq, ()))
        ]

    def _mismatch(self) -> Finding | None:
        """Return the first collective in which ranks do not do the same."""
        counts = Counter(seq for by_seq in self.collectives.values() for seq in by_seq)
        for seq in sorted(seq for seq, count in counts.items() if count > 1):
            at = {rank: by_seq[seq] for rank, by_seq in self.collectives.items() if seq in by_seq}
            for kind, key in _COMPARISONS:
                sides = _sides(at, key)
                if len(sides) > 1:
                    return self._mismatch_finding(kind, seq, at, sides)
        return None

    def _mismatch_finding(
        self, kind: str, seq: int, at: dict[int, list[Entry]], sides: dict[Hashable, list[int]]
    ) -> Finding:
        """Blame the smaller side; all of them if no side is."""
        ordered = sorted(sides.items(), key=lambda side: (-len(side[1]), side[1]))
        largest = len(ordered[0][1])
        blamed = [rank for _, ranks in ordered[1:] for rank in ranks]
        if len(ordered[1][1]) == largest:
            blamed = sorted(at)
        detail = ";".join(f"{_show(value)}:{rank_text(ranks)}" for value, ranks in ordered)
        op = at[ordered[0][1][0]][0].op
        return self._finding(kind, blamed, seq, op, detail=f" sides={detail}")

    def _stuck(self) -> Iterator[Finding]:
        """Yield what the first unfinished collective says."""
        seq = self._first_pending()
        if seq is None:
            return
        waiting = self._waiting(seq)
        first = self.collectives[waiting[0]][seq][0]
        absent = [rank for rank in self.members if rank not in self.collectives]
        if absent:
            yield self._finding("no-dump", absent, seq, first.op, detail=f" waiting={rank_text(waiting)}")
        behind = [rank for rank, last in self.last.items() if last < seq]
        if behind:
            yield self._finding("never-arrived", behind, seq, first.op, detail=f" waiting={rank_text(waiting)}")
        elif not absent:
            yield self._arrived(seq, first.op, waiting)

    def _first_pending(self) -> int | None:
        """Return the first collective that somebody waits in."""
        seqs = sorted({seq for by_seq in self.collectives.values() for seq in by_seq})
        for seq in seqs:
            waiting = self._waiting(seq)
            told = any(entry.tells_start for rank in waiting for entry in self.collectives[rank][seq])
            # Where the backend does not say what is over, one rank that has not retired its work yet proves nothing.
            if waiting and (told or len(waiting) == len(self.collectives) or min(self.last.values()) < seq):
                return seq
        return None

    def _arrived(self, seq: int, op: str, waiting: list[int]) -> Finding:
        """Return what is to be said when every rank with a dump enqueued the collective."""
        states = {rank: self.collectives[rank][seq][-1] for rank in waiting}
        if len(waiting) < len(self.collectives):
            return self._finding("partly-completed", waiting, seq, op)
        idle = [rank for rank, entry in states.items() if entry.state == "scheduled" and entry.tells_start]
        if idle and len(idle) < len(states):
            return self._finding("not-started", idle, seq, op)
        # Without TORCH_NCCL_ENABLE_TIMING nobody records the start: "scheduled" then means no more than "enqueued".
        seen = "+".join(sorted({entry.state for entry in states.values()}))
        return self._finding("all-started", waiting, seq, op, detail=f" state={seen}")

    def _unmatched_sends(self) -> Iterator[Finding]:
        """Yield point-to-point operations of which the other end was never posted."""
        pending: dict[tuple[str, int, int], list[Entry]] = {}
        for found in self.entries.values():
            for entry in found:
                if entry.peer_to_peer and not entry.done and (ends := _ends(entry.op)) is not None:
                    pending.setdefault(ends, []).append(entry)
        for (verb, source, target), found in sorted(pending.items()):
            other = "recv" if verb == "send" else "send"
            awaited = self._global(target if verb == "send" else source)
            own = self._global(source if verb == "send" else target)
            if (other, source, target) not in pending and awaited in self.entries:
                yield Finding(
                    kind="p2p-unmatched",
                    ranks=frozenset({awaited}),
                    group=self.name,
                    seq=found[0].seq,
                    op=found[0].op.replace(" ", "_"),
                    waiting=frozenset({own}),
                    time=found[0].created,
                )

    def _global(self, group_rank: int) -> int:
        return self.members[group_rank] if 0 <= group_rank < len(self.members) else group_rank


def _ends(op: str) -> tuple[str, int, int] | None:
    """Return (verb, source, target) of `send 1->2` or `recv 2<-1`."""
    verb, _, ends = op.partition(" ")
    left, arrow, right = ends.partition("->" if verb == "send" else "<-")
    if not arrow or not left.isdecimal() or not right.isdecimal():
        return None
    return (verb, int(left), int(right)) if verb == "send" else (verb, int(right), int(left))


def _sides(at: dict[int, list[Entry]], key: Callable[[list[Entry]], Hashable]) -> dict[Hashable, list[int]]:
    sides: dict[Hashable, list[int]] = {}
    for rank in sorted(at):
        value = key(at[rank])
        if value is not None:
            sides.setdefault(value, []).append(rank)
    return sides


def _comparable(entries: list[Entry]) -> bool:
    return all(entry.op in SAME_SIZE for entry in entries)


_COMPARISONS: tuple[tuple[str, Callable[[list[Entry]], Hashable]], ...] = (
    ("type-mismatch", lambda entries: tuple(entry.op for entry in entries)),
    ("size-mismatch", lambda entries: tuple(entry.input_sizes for entry in entries) if _comparable(entries) else None),
    ("dtype-mismatch", lambda entries: tuple(entry.input_types for entry in entries) if _comparable(entries) else None),
)


def _show(value: Hashable) -> str:
    """Return a compared value without blanks: `all_reduce`, `[1024]`, `[Float]`."""
    parts = [
        "[" + "+".join(map(str, item)) + "]" if isinstance(item, tuple) else str(item)
        for item in (value if isinstance(value, tuple) else (value,))
    ]
    return "+".join(parts).replace(" ", "_")


def _groups(dumps: dict[int, Dump]) -> Iterator[_GroupView]:
    """Yield each group. Groups of the same name on different ranks are told apart by their members."""
    members: dict[str, list[int]] = {}
    for dump in dumps.values():
        for name, group in dump.groups.items():
            if group.members:
                members.setdefault(name, group.members)
    names = sorted({entry.group for dump in dumps.values() for entry in dump.entries})
    for name in names:
        ranks = members.get(name) or sorted(rank for rank, dump in dumps.items() if _has_group(dump, name))
        yield _GroupView(
            name or "default_pg",
            ranks,
            {rank: [entry for entry in dumps[rank].entries if entry.group == name] for rank in ranks if rank in dumps},
            {rank: _status(dumps[rank], name) for rank in ranks if rank in dumps},
        )


def _has_group(dump: Dump, name: str) -> bool:
    return name in dump.groups or any(entry.group == name for entry in dump.entries)


def _status(dump: Dump, name: str) -> int:
    """Return the last enqueued collective of a group by the status of the dump; -1 if it does not say."""
    ids = {entry.group_id for entry in dump.entries if entry.group == name}
    return max((dump.last_enqueued.get(number, -1) for number in ids), default=-1)
