"""Which of the causes came first: takes out what another one explains.

A explains B when the card of A (or a rule for its family) says so, A is seen well enough, and A is not later than B.
Times compare only on one clock; where they do not compare, order within one rank's log does; where that is not known
either, the explanation stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from firstfault.catalogue import Catalogue
    from firstfault.diagnosis.candidates import Candidate
    from firstfault.model import Observation

__all__ = ["Standing", "rank_causes"]

# Clocks of machines in one job agree about this well; watchdogs and teardown are slower.
CLOCK_TOLERANCE_S = 5.0
# Output of threads and of the launcher mixes within a log by about this much.
LINE_TOLERANCE = 60
# An explanation must be about as well seen as what it explains; less so where a card names the very cause.
ENOUGH = 0.62
ENOUGH_NAMED = 0.52
SAME_LINE = 0.85
# How little a signature says of its line: that a program raised, or which one did, any reading of the exception's text
# says more exactly.
GENERAL = {
    "workload.rank.exception/traceback-final-line": 2,
    "workload.vllm.other/derived-raised-inside": 1,
    "workload.vllm.other/speaks-of-vllm": 1,
    "workload.vllm.other/vllm-value-error": 1,
}
# A mere suspicion explains nothing that is better seen than itself.
SUSPICION = 0.35
# Among causes that none explains, one that is seen almost as well and began earlier is the first. One of another layer
# may be seen less well if clocks tell that it was earlier; within a layer two causes are often one event in two words.
COMPARABLE = 0.88
COMPARABLE_BY_CLOCK = 0.75
_WILD = re.compile(r"[*?\[]")


@dataclass
class Standing:
    """The outcome: the first cause, what follows from it, what is independent of it.

    Attributes:
        explained: Candidate → (what explains it, why).
    """

    first: Candidate
    explained: list[tuple[Candidate, Candidate, str]] = field(default_factory=list)
    independent: list[Candidate] = field(default_factory=list)


def rank_causes(candidates: list[Candidate], catalogue: Catalogue) -> Standing | None:
    """Decide which candidate is the first cause; None when there is no candidate."""
    if not candidates:
        return None
    sequence = _Sequence(candidates)
    explained = _find_explained(candidates, _Rules(catalogue, sequence))
    open_ones = [one for one in candidates if one.cause not in explained] or candidates[:1]
    best = open_ones[0]
    for rival in open_ones[1:]:
        elsewhere = rival.cause.split(".", 1)[0] != best.cause.split(".", 1)[0]
        enough = COMPARABLE_BY_CLOCK if elsewhere and sequence.is_before_by_clock(rival, best) else COMPARABLE
        if rival.support >= enough * best.support and sequence.is_before(rival, best):
            best = rival
    independent = [one for one in open_ones if one is not best]
    return Standing(best, [item for item in explained.values() if item[0] is not best], independent)


class _Sequence:
    """Which of two candidates came first, as far as clocks and lines tell.

    Args:
        candidates: All of them: how many ranks write into a source decides how many lines count as "at once" there,
            for the lines of the others stand between two of one rank.
    """

    def __init__(self, candidates: list[Candidate]) -> None:
        ranks: dict[str, set[int | None]] = {}
        for candidate in candidates:
            for item in candidate.roots:
                ranks.setdefault(item.source, set()).add(item.rank)
        self._tolerance = {source: LINE_TOLERANCE * len(found) for source, found in ranks.items()}

    def is_after(self, one: Candidate, other: Candidate) -> bool:
        """Whether one began clearly later than the other."""
        order = self._compare(one.first, other.first)
        return order is not None and order > 0

    def is_before(self, one: Candidate, other: Candidate) -> bool:
        """Whether one began earlier than the other, be it by a line of the same source."""
        first, second = one.first, other.first
        order = self._compare(first, second)
        if order:
            return order < 0
        if first.source == second.source and first.order is not None and second.order is not None:
            return first.order < second.order
        return False

    def is_before_by_clock(self, one: Candidate, other: Candidate) -> bool:
        """Whether one began clearly earlier than the other by a clock that both were timed with."""
        seconds = _seconds_between(one.first, other.first)
        return seconds is not None and seconds > CLOCK_TOLERANCE_S

    def _compare(self, one: Observation, other: Observation) -> int | None:
        """-1, 0, 1 as one is before, about together with, or after the other; None when that cannot be told."""
        seconds = _seconds_between(one, other)
        if seconds is not None:
            return 0 if abs(seconds) <= CLOCK_TOLERANCE_S else (1 if seconds < 0 else -1)
        if one.source == other.source and one.rank == other.rank and one.order is not None and other.order is not None:
            lines = one.order - other.order
            tolerance = self._tolerance.get(one.source, LINE_TOLERANCE)
            return 0 if abs(lines) <= tolerance else (1 if lines > 0 else -1)
        return None


def _seconds_between(one: Observation, other: Observation) -> float | None:
    """How much later the other one is; None where they have no clock in common."""
    if one.time is None or other.time is None or one.clock != other.clock:
        return None
    return other.time - one.time


class _Rules:
    """Which causes can explain which, by the cards and by the families of signals/causality.yaml.

    What each cause matches is worked out once: an input in which everything matches has hundreds of causes, and so a
    hundred thousand pairs of them.
    """

    def __init__(self, catalogue: Catalogue, sequence: _Sequence) -> None:
        self.sequence = sequence
        self._families = catalogue.causality
        self._own: dict[str, set[str]] = {}
        for card in catalogue.cards.values():
            self._own.setdefault(card.cause, set()).update(card.explains)
        self._globs = {cause: [glob for glob in own if _WILD.search(glob)] for cause, own in self._own.items()}
        self._by: dict[str, frozenset[int]] = {}
        self._what: dict[str, frozenset[int]] = {}

    def names(self, by: str, what: str) -> bool:
        """Whether a card of one cause (or of its variants) names the very other."""
        return what in self._own.get(by, ())

    def why(self, by: str, what: str) -> tuple[str, float] | None:
        """Why one cause explains the other, and how well it must be seen for that, as a share of the other."""
        both = self._matching(self._by, by, "by") & self._matching(self._what, what, "explains")
        found = [(self._families[place].because, self._families[place].enough) for place in sorted(both)]
        if self.names(by, what):
            found.insert(0, (f"a consequence of {by}", ENOUGH_NAMED))
        elif any(fnmatchcase(what, glob) for glob in self._globs.get(by, ())):
            found.insert(0, (f"a consequence of {by}", ENOUGH))
        return min(found, key=lambda one: one[1], default=None)

    def _matching(
        self, known: dict[str, frozenset[int]], cause: str, side: Literal["by", "explains"]
    ) -> frozenset[int]:
        """The families that have a cause on one side."""
        if cause not in known:
            known[cause] = frozenset(
                place
                for place, rule in enumerate(self._families)
                if any(fnmatchcase(cause, glob) for glob in getattr(rule, side))
            )
        return known[cause]


def _find_explained(candidates: list[Candidate], rules: _Rules) -> dict[str, tuple[Candidate, Candidate, str]]:
    """Cause → (its candidate, the best seen one that explains it, why)."""
    explained: dict[str, tuple[Candidate, Candidate, str]] = {}
    for later in candidates:
        for earlier in candidates:
            why = _explanation(earlier, later, rules)
            if why is None:
                continue
            mutual = _explanation(later, earlier, rules) is not None
            if mutual and _standing(later, earlier, rules) > _standing(earlier, later, rules):
                continue
            known = explained.get(later.cause)
            if known is None or known[1].support < earlier.support:
                explained[later.cause] = (later, earlier, why)
    return explained


def _standing(one: Candidate, other: Candidate, rules: _Rules) -> tuple[bool, float, str]:
    """Which of two causes that could each explain the other does: the one whose card says so, the better seen."""
    return rules.names(one.cause, other.cause), one.support, one.cause


def _explanation(earlier: Candidate, later: Candidate, rules: _Rules) -> str | None:
    """Why one explains the other, or None: nothing says that it can, it is seen too poorly, or it came later."""
    if earlier is later:
        return None
    found = rules.why(earlier.cause, later.cause)
    if found is None or rules.sequence.is_after(earlier, later):
        return None
    why, enough = found
    if _same_line(earlier.first, later.first):
        general = GENERAL.get(earlier.first.signature, 0)
        if general > GENERAL.get(later.first.signature, 0):
            return None
        if general == GENERAL.get(later.first.signature, 0):
            enough = max(enough, SAME_LINE)  # two readings of one line: the surer one
    if earlier.support < SUSPICION:
        enough = 1.0
    return why if earlier.support >= enough * later.support else None


def _same_line(one: Observation, other: Observation) -> bool:
    return one.source == other.source and one.order == other.order and one.text == other.text
