"""Sorts observations into what diagnosis asks for: facts about the job, and where each rank stood at its end."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from firstfault.diagnosis.objects import Named, about
from firstfault.model import Observation, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.catalogue import Catalogue
    from firstfault.diagnosis.walls import Joined

__all__ = ["Facts", "Writer", "gather_facts"]

_SIGNAL = "signal/"
# Where objects of the cluster stand, each for itself. What counts is the last word of each.
_POD_RUNGS = frozenset({"admitted", "scheduled", "image", "started", "ready"})
# What a node says of itself: it speaks against a fault of the node, but shows no job at work.
_NODE_ONLY = frozenset({"health.nvidia-smi"})
# Ten times the largest machine there is; what asks for every rank that did not come must end.
LARGEST_WORLD = 1_000_000
# Lines of documents, which nobody printed: their source takes no part in the job.
_DOCUMENTS = frozenset({"signal/model.config"})


@dataclass
class Writer:
    """One participant: a rank, or a source of which the rank is not known.

    Attributes:
        rank: Global rank, or None.
        source: First source in which it was seen.
        reached: Rung → first line that shows it standing there.
        passed: Rung of a Pod → the last line of each object that shows it there.
        trying: Rung → last line that shows it working there.
        faults: Root observations that it printed.
        complains: Whether it printed any other line of a fault.
    """

    rank: int | None
    source: str
    reached: dict[str, Observation] = field(default_factory=dict)
    passed: dict[str, dict[Named | None, Observation]] = field(default_factory=dict)
    trying: dict[str, Observation] = field(default_factory=dict)
    faults: list[Observation] = field(default_factory=list)
    complains: bool = False
    signals: dict[str, list[Observation]] = field(default_factory=lambda: defaultdict(list))

    def first(self, signal: str) -> Observation | None:
        """The first line of a signal, or None."""
        found = self.signals.get(signal)
        return found[0] if found else None

    def stood_on(self, rung: str) -> Iterable[Observation]:
        """The lines that show it on a rung which it reached: the first one; of Pods the last one of each object."""
        return self.passed[rung].values() if rung in self.passed else (self.reached[rung],)

    def reach(self, rung: str, line: Observation) -> None:
        """Take in a line that shows it on a rung."""
        self.reached.setdefault(rung, line)
        if rung in _POD_RUNGS:
            self.passed.setdefault(rung, {})[about(line)] = line


@dataclass
class Facts:
    """All facts of one input.

    Attributes:
        signals: Signal id → its observations, in order.
        faults: Observations of cards, in order.
        writers: Participants, ranks first and in order.
        rungs: Rung of each signature (cards and signals), "" left out.
        order: Rung id → its height, over all ladders.
        servers: What vLLM servers say, joined with the models' configurations; filled in by diagnosis.
        stops: (glob of causes, rung on which they stop a rank), most specific rungs first as the ladder has them.
    """

    signals: dict[str, list[Observation]]
    faults: list[Observation]
    writers: list[Writer]
    rungs: dict[str, str]
    order: dict[str, int]
    stops: list[tuple[str, str]] = field(default_factory=list)
    servers: list[Joined] = field(default_factory=list)

    def stop_of(self, item: Observation) -> str:
        """The rung on which a fault's line stops whoever printed it; "" when nothing says."""
        if rung := self.rungs.get(item.signature):
            return rung
        return self.rung_of_cause(item.cause)

    def rung_of_cause(self, cause: str) -> str:
        """The rung on which a cause stops a rank as a rule; "" when it has none."""
        return next((rung for glob, rung in self.stops if fnmatchcase(cause, glob)), "")

    def has(self, *signals: str) -> bool:
        """Whether any of these signals was seen."""
        return any(self.signals.get(signal) for signal in signals)

    def first(self, signal: str) -> Observation | None:
        """The first line of a signal anywhere, or None."""
        found = self.signals.get(signal)
        return found[0] if found else None

    def add_fault(self, item: Observation) -> None:
        """Take in a fault that was worked out from a line, as if its writer had said it."""
        self.faults.append(item)
        for writer in self.writers:
            if writer.rank == item.rank and (item.rank is not None or writer.source == item.source):
                writer.faults.append(item)

    @property
    def ranks(self) -> list[Writer]:
        """Participants whose rank is known."""
        return [writer for writer in self.writers if writer.rank is not None]

    @property
    def world_size(self) -> int | None:
        """How many ranks the job has: the largest number that any line gives and a job may have."""
        sizes = [
            int(value)
            for name in (
                "store.clients",
                "store.barrier-wait",
                "world.rank",
                "world.size",
                "nccl.init-start",
                "nccl.nodes",
            )
            for item in self.signals.get(name, ())
            for key, value in item.fields.items()
            if key.startswith("world")
        ]
        return max((size for size in sizes if size <= LARGEST_WORLD), default=None)

    @property
    def backend(self) -> str:
        """nccl, gloo or "" when no line tells. NCCL wins where both occur (gloo carries its CPU side)."""
        if self.has("backend.nccl", "nccl.speaks", "watchdog.timeout"):
            return "nccl"
        return "gloo" if self.has("backend.gloo", "gloo.connected") else ""

    @property
    def health(self) -> float:
        """0 to 1: how strongly the lines speak for a job that works."""
        doubt = 1.0
        for items in self.signals.values():
            doubt *= 1 - max((item.strength for item in items), default=0.0)
        return 1 - doubt

    @property
    def shows_work(self) -> bool:
        """Whether anything but a node's own banner speaks for a job that works."""
        return any(
            item.strength > 0 for name, items in self.signals.items() if name not in _NODE_ONLY for item in items
        )


def gather_facts(observations: list[Observation], catalogue: Catalogue) -> Facts:
    """Sort the observations of a scan."""
    rungs = {
        f"{card.id}/{signature.id}": signature.rung
        for card in catalogue.cards.values()
        for signature in card.signatures
        if signature.rung
    }
    states = {f"{_SIGNAL}{signal.id}": signal for signal in catalogue.signals}
    rungs |= {key: signal.rung for key, signal in states.items() if signal.rung}
    order = {rung.id: height for height, rung in enumerate(catalogue.rungs)}
    signals: dict[str, list[Observation]] = defaultdict(list)
    faults: list[Observation] = []
    writers: dict[tuple[int | None, str], Writer] = {}
    for item in observations:
        if item.signature in _DOCUMENTS:
            signals[item.signature.removeprefix(_SIGNAL)].append(item)
            continue
        writer = writers.setdefault(
            (item.rank, "" if item.rank is not None else item.source), Writer(item.rank, item.source)
        )
        if signal := states.get(item.signature):
            signals[signal.id].append(item)
            writer.signals[signal.id].append(item)
            if signal.rung and signal.state == "reached":
                writer.reach(signal.rung, item)
            elif signal.rung:
                writer.trying[signal.rung] = item
        else:
            faults.append(item)
            if item.role is Role.ROOT:
                writer.faults.append(item)
            elif item.role is Role.CONSEQUENCE:
                writer.complains = True
    ordered = sorted(writers.values(), key=lambda one: (one.rank is None, one.rank or 0, one.source))
    stops = [(glob, rung.id) for rung in catalogue.rungs for glob in rung.stops]
    return Facts(dict(signals), faults, ordered, rungs, order, stops)
