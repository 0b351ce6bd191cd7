"""The ladder: how far each rank climbed and where it stopped, ranks with the same fate in one group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from firstfault.diagnosis.objects import are_different
from firstfault.model import Ladder, LadderGroup, Observation, Role
from firstfault.model.ranks import rank_ranges

if TYPE_CHECKING:
    from firstfault.catalogue import Catalogue, Rung
    from firstfault.diagnosis.facts import Facts, Writer

__all__ = ["WENT_QUIET", "build_ladder"]

WENT_QUIET = "it went quiet: nothing that it printed says why"
"""Why a rank stopped whose own lines do not tell; its rung is the next one above what it surely reached."""

_AGENTS = "agent-rendezvous"


def build_ladder(facts: Facts, catalogue: Catalogue, cause: str | None) -> Ladder:
    """Place every participant on the ladder.

    Args:
        facts: What is known.
        catalogue: Knows the rungs and on which one a fault's line stops a rank.
        cause: The first cause, whose own lines say best why a rank stopped; None when nothing is wrong.
    """
    rungs = _rungs_of(facts, catalogue)
    builder = _Fates(facts, catalogue, [rung.id for rung in rungs], {rung.id: rung.title for rung in rungs}, cause)
    fates: dict[_Fate, list[int]] = {}
    for writer in facts.ranks or facts.writers[:1]:
        fates.setdefault(builder.of(writer), []).extend([] if writer.rank is None else [writer.rank])
    groups = [
        LadderGroup(ranks=rank_ranges(ranks), reached=fate.reached, stopped_at=fate.stopped_at, why=fate.why)
        for fate, ranks in sorted(fates.items(), key=lambda item: item[1][:1])
    ]
    return Ladder(rungs=builder.names, groups=groups)


def _rungs_of(facts: Facts, catalogue: Catalogue) -> list[Rung]:
    """The rungs that this input's job climbs: whole ladders that are mentioned, rungs of its backend."""
    seen = _seen(facts)
    mentioned = {rung for key, rung in facts.rungs.items() if key in seen}
    ladders = {rung.ladder for rung in catalogue.rungs if rung.id in mentioned} or {"job"}
    backend = facts.backend
    return [
        rung
        for rung in catalogue.rungs
        if rung.ladder in ladders
        and (not rung.backend or rung.backend == backend)
        and (not rung.optional or rung.id in mentioned)
    ]


def _seen(facts: Facts) -> set[str]:
    return {f"signal/{name}" for name, items in facts.signals.items() if items} | {
        item.signature for item in facts.faults if item.role in (Role.ROOT, Role.CONSEQUENCE)
    }


class _Fate(NamedTuple):
    reached: str | None
    stopped_at: str | None
    why: str


@dataclass
class _Fates:
    """Says for one participant after the other how far it got, and why no further."""

    facts: Facts
    catalogue: Catalogue
    names: list[str]
    titles: dict[str, str]
    cause: str | None

    def of(self, writer: Writer) -> _Fate:
        """Place one participant."""
        fault = self._stopping_line(writer)
        heights = [
            self.names.index(rung)
            for rung in writer.reached
            if rung in self.names and not (fault and all(are_different(line, fault) for line in writer.stood_on(rung)))
        ]
        start = self.names.index("process") if "process" in self.names else -1
        reached = max(heights, default=start)
        if "process" in self.names and any(name.startswith(("job.", "world.")) for name in writer.signals):
            reached = max(reached, start)
        stop = self._on_this_ladder(self._stop_of(writer, fault)) if fault else ""
        if stop in self.names and not heights:
            reached = max(reached, self.names.index(stop) - 1)
        name = self.names[reached] if reached >= 0 else None
        if fault is None and (self.cause is None or name in ("finished", "serving", "ready")):
            return _Fate(name, None, self.titles.get(name or "", "it ran"))
        if stop not in self.names or self.names.index(stop) <= reached:
            tried = [self.names.index(rung) for rung in writer.trying if rung in self.names]
            above = [height for height in tried if height > reached] or [reached + 1]
            stop = self.names[min(*above, len(self.names) - 1)]
        return _Fate(name, stop, self._why(writer, fault))

    def _stop_of(self, writer: Writer, fault: Observation) -> str:
        """The rung on which a participant's line stops it.

        An agent is a client of the store as well, with the same lines, before its program starts.
        """
        stop = self.facts.stop_of(fault)
        if stop != "store" or any(name.startswith(("job.", "world.")) for name in writer.signals):
            return stop
        agent = any(self.facts.stop_of(item) == _AGENTS for item in writer.faults)
        return _AGENTS if agent else stop

    def _on_this_ladder(self, rung: str) -> str:
        """The rung, or the next higher one that this job climbs (gloo has its mesh where NCCL has its bootstrap)."""
        height = self.facts.order.get(rung)
        if height is None or rung in self.names:
            return rung
        return next((name for name in self.names if self.facts.order[name] > height), "")

    def _stopping_line(self, writer: Writer) -> Observation | None:
        """The fault line that says best why this participant stopped: of the first cause, else the strongest."""
        own = [item for item in writer.faults if item.cause == self.cause] or writer.faults
        return max(own, key=lambda item: (item.signature in self.facts.rungs, item.strength), default=None)

    def _why(self, writer: Writer, fault: Observation | None) -> str:
        waits = writer.signals.get("watchdog.timeout")
        if waits and (fault is None or fault.cause.startswith("workload.collective.") or fault.cause != self.cause):
            operation = waits[0].fields["op"].strip("_").lower()
            return f"it waits in {operation} {waits[0].fields['seq']}"
        if fault is None:
            return WENT_QUIET
        card = self.catalogue.cards.get(fault.cause)
        return f"{card.title} ({fault.cause})" if card else fault.cause
