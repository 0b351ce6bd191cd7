"""Which causes the lines point at, and how strongly, before asking which of them came first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firstfault.diagnosis.derived import DERIVED
from firstfault.diagnosis.objects import Excuses, about, are_different, is_later
from firstfault.model import Observation, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.diagnosis.facts import Facts, Writer

__all__ = ["Candidate", "weigh"]

# A line that the same rank climbed past later was a hiccup, unless it is one that hardly ever is.
RECOVERED = 0.12
RECOVERED_STRONG = 0.6
STRONG = 0.7
# Something that went wrong before training steps or a good end need not have mattered.
SURVIVED = 0.35
# Clocks may be off by a time zone, not by a day; a job that was at work for as long was so in spite of the fault.
LONG_AGO_S = 24 * 3600.0
_AT_WORK = ("job.step", "job.sum", "job.finished", "vllm.serving")
# A complaint about the start of a program whose source shows it running already is not about this start.
ALREADY_PAST = 0.6
START_RUNGS = frozenset({"admitted", "scheduled", "image", "started"})
# The aftermath of a cause hints at it; alone it must lose against any root line.
AFTERMATH = 0.3
# Faults with which a job runs to its end, only slower: progress afterwards says nothing against them.
SLOW = frozenset({"network.link.degraded", "network.efa.silent-fallback", "network.nccl.gdr-disabled"})
# A program's own verdict that its results are wrong: it comes to its end all the same.
LASTING = frozenset({"network.nccl.p2p-broken/wrong-sums"})
# Further signatures of the same cause are often the same event in other words.
FURTHER = 0.5


@dataclass
class Candidate:
    """One cause that might be the first fault.

    Attributes:
        support: 0 to 1: how likely this is the first fault given its own lines alone.
        roots: Lines that are the fault itself, in the order of sources and lines.
        others: Its consequences and context.
    """

    cause: str
    support: float
    roots: list[Observation] = field(default_factory=list)
    others: list[Observation] = field(default_factory=list)

    @property
    def first(self) -> Observation:
        """The line to cite first: the earliest of its strongest roots."""
        best = self.roots or self.others
        top = max(item.strength for item in best)
        return next(item for item in best if item.strength >= top - 0.2)


def weigh(facts: Facts, derived: Iterable[Observation]) -> list[Candidate]:
    """Return every cause with any support, most likely first."""
    by_cause: dict[str, list[Observation]] = {}
    for item in (*facts.faults, *derived):
        by_cause.setdefault(item.cause, []).append(item)
    ran, worked = _first_work(facts), _last_work(facts)
    writers = {(writer.rank, "" if writer.rank is not None else writer.source): writer for writer in facts.writers}
    candidates = []
    for cause, items in by_cause.items():
        weights: dict[str, float] = {}
        excuses = Excuses([item for item in items if item.role is Role.EXONERATING])
        unexcused: dict[str, float] = {}
        standing: list[Observation] = []
        for item in items:
            if item.role in (Role.ROOT, Role.CONSEQUENCE):
                writer = writers.get((item.rank, "" if item.rank is not None else item.source))
                survival = _survival(item, writer, facts)
                if item.time is not None and worked.get(item.clock, item.time) - item.time > LONG_AGO_S:
                    survival = min(survival, SURVIVED)
                weight = item.strength * survival
                if item.order is not None and ran.get(item.source, item.order) < item.order:
                    weight *= ALREADY_PAST if facts.rungs.get(item.signature) in START_RUNGS else 1
                weight *= AFTERMATH if item.role is Role.CONSEQUENCE else 1
                weights[item.signature] = max(weights.get(item.signature, 0.0), weight)
                if not excuses.hear(item):
                    standing += [item] * (survival == 1)
                    unexcused[item.signature] = max(unexcused.get(item.signature, 0.0), weight)
        if not weights:
            continue
        context = len({item.signature for item in items if item.role is Role.CONTEXT})
        support = _in_context(_combine(weights.values()), context) * excuses.doubt()
        if unexcused:
            support = max(support, _in_context(_combine(unexcused.values()), context))
        roots = sorted(_of_whom(items, standing), key=_position)
        others = [item for item in items if item.role in (Role.CONSEQUENCE, Role.CONTEXT)]
        candidates.append(Candidate(cause, support, roots, others))
    return sorted(candidates, key=lambda one: (-one.support, one.cause))


def _of_whom(items: list[Observation], standing: list[Observation]) -> list[Observation]:
    """The roots to cite: where some Pods or nodes got past the fault and others did not, those of the others."""
    roots = [item for item in items if item.role is Role.ROOT]
    stuck = {about(item) for item in standing if item.role is Role.ROOT}
    if not stuck or None in stuck:
        return roots
    return [item for item in roots if about(item) is None or about(item) in stuck]


def _in_context(support: float, context: int) -> float:
    """A little more for each kind of line that goes with the cause."""
    return 1 - (1 - support) * (1 - 0.1 * min(context, 3))


def _position(item: Observation) -> tuple[str, int, str]:
    return item.source, item.order or 0, item.signature


def _combine(weights: Iterable[float]) -> float:
    """Noisy-or, with every signature after the strongest counted half."""
    strongest, *rest = sorted(weights, reverse=True)
    doubt = 1 - strongest
    for weight in rest:
        doubt *= 1 - FURTHER * weight
    return 1 - doubt


def _first_work(facts: Facts) -> dict[str, int]:
    """Source → the first line that shows a job at work in it."""
    lines: dict[str, int] = {}
    for name in ("watchdog.timeout", "job.step", "job.sum", "nccl.init-complete"):
        for item in facts.signals.get(name, ()):
            if item.order is not None:
                lines[item.source] = min(item.order, lines.get(item.source, item.order))
    return lines


def _last_work(facts: Facts) -> dict[str, float]:
    """Clock → the last time at which any line shows the job at work."""
    times: dict[str, float] = {}
    for name in _AT_WORK:
        for item in facts.signals.get(name, ()):
            if item.time is not None:
                times[item.clock] = max(item.time, times.get(item.clock, item.time))
    return times


def _ready_again(item: Observation, facts: Facts) -> bool:
    """Whether the node said further down that it is ready: it only started, or came back."""
    return any(
        seen.source == item.source and (seen.order or 0) > (item.order or 0) and not are_different(seen, item)
        for seen in facts.signals.get("ordinary.node-ready", ())
    )


def _is_below(line: Observation, item: Observation) -> bool:
    """Whether a line is further down in the same source."""
    if line.order is None or item.order is None:
        return False
    return line.source == item.source and line.order > item.order


def _is_past(writer: Writer, rung: str, item: Observation) -> bool:
    """Whether a writer, of Pods the same one as far as the lines tell, got to a rung after a fault."""
    objects = writer.passed.get(rung)
    if objects is None:
        return _is_below(writer.reached[rung], item)
    named = about(item)
    if named in objects and named is not None:
        return is_later(objects[named], item)
    lines = objects.values() if named is None or named.kind != "pod" else [objects[None]] if None in objects else []
    return any(_is_below(line, item) and not are_different(line, item) for line in lines)


def _survival(item: Observation, writer: Writer | None, facts: Facts) -> float:
    """How much of a line's weight is left when the same writer got further afterwards."""
    if writer is None or item.order is None or DERIVED in item.signature:
        return 1.0
    if item.cause in SLOW or item.signature in LASTING:
        return 1.0
    if item.cause.startswith("driver.") and item.strength >= STRONG:
        return 1.0  # steps of a job do not mend a GPU
    if item.cause == "infra.node.notready" and _ready_again(item, facts):
        return RECOVERED
    height = facts.order.get(facts.rungs.get(item.signature, ""))
    for rung in writer.reached:
        if height is not None and facts.order[rung] >= height and _is_past(writer, rung, item):
            return RECOVERED_STRONG if item.strength >= STRONG else RECOVERED
    last_good = max(
        (
            seen.order or 0
            for name in (*_AT_WORK, "nccl.destroyed")
            for seen in writer.signals.get(name, ())
            if seen.source == item.source
        ),
        default=0,
    )
    return SURVIVED if last_good > item.order else 1.0
