"""The ladder: how far each rank climbed and where it stopped, ranks with the same fate in one group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model import Ladder, LadderGroup, Observation, Role

if TYPE_CHECKING:
    from firstfault.catalogue import Catalogue, Rung
    from firstfault.diagnosis.facts import Facts, Writer

__all__ = ["build_ladder", "ranges"]


def ranges(ranks: list[int]) -> list[list[int]]:
    """Collapse ranks into inclusive ranges: [0, 1, 2, 7] → [[0, 2], [7, 7]]."""
    out: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if out and rank == out[-1][1] + 1:
            out[-1][1] = rank
        else:
            out.append([rank, rank])
    return out


def build_ladder(facts: Facts, catalogue: Catalogue, cause: str | None) -> Ladder:
    """Place every participant on the ladder.

    Args:
        facts: What is known.
        catalogue: Knows the rungs and on which one a fault's line stops a rank.
        cause: The first cause, whose own lines say best why a rank stopped; None when nothing is wrong.
    """
    rungs = _rungs_of(facts, catalogue)
    names = [rung.id for rung in rungs]
    titles = {rung.id: rung.title for rung in rungs}
    fates: dict[tuple[str | None, str | None, str], list[int]] = {}
    for writer in facts.ranks or facts.writers[:1]:
        fate = _fate(writer, names, titles, facts, cause)
        fates.setdefault(fate, []).append(writer.rank if writer.rank is not None else 0)
    groups = [
        LadderGroup(ranks=ranges(ranks), reached=reached, stopped_at=stopped, why=why)
        for (reached, stopped, why), ranks in sorted(fates.items(), key=lambda item: min(item[1]))
    ]
    return Ladder(rungs=names, groups=groups)


def _rungs_of(facts: Facts, catalogue: Catalogue) -> list[Rung]:
    """The rungs that this input's job climbs: whole ladders that are mentioned, rungs of its backend."""
    mentioned = {rung for key, rung in facts.rungs.items() if key in _seen(facts)}
    ladders = {rung.ladder for rung in catalogue.rungs if rung.id in mentioned} or {"job"}
    backend = facts.backend
    return [
        rung
        for rung in catalogue.rungs
        if rung.ladder in ladders
        and (not rung.backend or rung.backend == (backend or "nccl"))
        and (not rung.optional or rung.id in mentioned)
    ]


def _seen(facts: Facts) -> set[str]:
    return {f"signal/{name}" for name, items in facts.signals.items() if items} | {
        item.signature for item in facts.faults if item.role in (Role.ROOT, Role.CONSEQUENCE)
    }


def _fate(
    writer: Writer, names: list[str], titles: dict[str, str], facts: Facts, cause: str | None
) -> tuple[str | None, str | None, str]:
    heights = [names.index(rung) for rung in writer.reached if rung in names]
    reached = max(heights, default=names.index("process") if "process" in names else -1)
    fault = _stopping_line(writer, facts, cause)
    stop = facts.rungs.get(fault.signature, "") if fault else ""
    tried = [names.index(rung) for rung in writer.trying if rung in names]
    if stop in names and names.index(stop) > 0 and not any(height >= names.index(stop) for height in heights):
        reached = max(reached, names.index(stop) - 1)
    name = names[reached] if reached >= 0 else None
    if fault is None and (cause is None or name in ("finished", "serving", "ready")):
        return name, None, titles.get(name or "", "it ran") if name else "it ran"
    if stop not in names:
        following = [height for height in tried if height > reached] or [min(reached + 1, len(names) - 1)]
        stop = names[min(following)]
    why = fault.cause if fault else "it went quiet: nothing that it printed says why"
    return name, stop, why


def _stopping_line(writer: Writer, facts: Facts, cause: str | None) -> Observation | None:
    """The fault line that says best why this rank stopped: of the first cause, else the strongest."""
    own = [item for item in writer.faults if item.cause == cause] or writer.faults
    if not own:
        return None
    return max(own, key=lambda item: (item.signature in facts.rungs, item.strength))
