"""Which of the causes came first: takes out what another one explains.

A explains B when the card of A (or a rule for its family) says so, A is seen well enough, and A is not later than B.
Times compare only on one clock; where they do not compare, order within one rank's log does; where that is not known
either, the explanation stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

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
# That a program raised is what any reading of the exception's text says more exactly.
GENERAL = frozenset({"workload.rank.exception/traceback-final-line"})
# A mere suspicion explains nothing that is better seen than itself.
SUSPICION = 0.35
# Among causes that none explains, one that is seen almost as well and began earlier is the first.
COMPARABLE = 0.88


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
    explained = _find_explained(candidates, catalogue)
    open_ones = [one for one in candidates if one.cause not in explained] or candidates[:1]
    best = open_ones[0]
    for rival in open_ones[1:]:
        if rival.support >= COMPARABLE * best.support and _clearly_before(rival, best):
            best = rival
    independent = [one for one in open_ones if one is not best]
    return Standing(best, [item for item in explained.values() if item[0] is not best], independent)


def _find_explained(candidates: list[Candidate], catalogue: Catalogue) -> dict[str, tuple[Candidate, Candidate, str]]:
    """Cause → (its candidate, the best seen one that explains it, why)."""
    explained: dict[str, tuple[Candidate, Candidate, str]] = {}
    explains = _explains(catalogue)
    for later in candidates:
        for earlier in candidates:
            why = _explanation(earlier, later, explains, catalogue)
            if why is None:
                continue
            mutual = _explanation(later, earlier, explains, catalogue) is not None
            if mutual and _standing(later, earlier, explains) > _standing(earlier, later, explains):
                continue
            known = explained.get(later.cause)
            if known is None or known[1].support < earlier.support:
                explained[later.cause] = (later, earlier, why)
    return explained


def _standing(one: Candidate, other: Candidate, explains: dict[str, set[str]]) -> tuple[bool, float, str]:
    """Which of two causes that could each explain the other does: the one whose card says so, the better seen."""
    return other.cause in explains.get(one.cause, ()), one.support, one.cause


def _explanation(
    earlier: Candidate, later: Candidate, explains: dict[str, set[str]], catalogue: Catalogue
) -> str | None:
    """Why one explains the other, or None: nothing says that it can, it is seen too poorly, or it came later."""
    if earlier is later:
        return None
    found = _why(earlier.cause, later.cause, explains, catalogue)
    if found is None or _is_after(earlier, later):
        return None
    why, enough = found
    if _same_line(earlier.first, later.first):
        if earlier.first.signature in GENERAL:
            return None
        if later.first.signature not in GENERAL:
            enough = max(enough, SAME_LINE)  # two readings of one line: the surer one
    if earlier.support < SUSPICION:
        enough = 1.0
    return why if earlier.support >= enough * later.support else None


def _same_line(one: Observation, other: Observation) -> bool:
    return one.source == other.source and one.line == other.line and one.text == other.text


def _explains(catalogue: Catalogue) -> dict[str, set[str]]:
    """Cause → globs of what it explains, by its own card and those of its variants."""
    found: dict[str, set[str]] = {}
    for card in catalogue.cards.values():
        found.setdefault(card.cause, set()).update(card.explains)
    return found


def _why(by: str, what: str, explains: dict[str, set[str]], catalogue: Catalogue) -> tuple[str, float] | None:
    """Why one cause explains the other, and how well it must be seen for that, as a share of the other."""
    own = explains.get(by, set())
    found = [
        (rule.because, rule.enough)
        for rule in catalogue.causality
        if any(fnmatchcase(by, glob) for glob in rule.by) and any(fnmatchcase(what, glob) for glob in rule.explains)
    ]
    if any(fnmatchcase(what, glob) for glob in own):
        found.insert(0, (f"a consequence of {by}", ENOUGH_NAMED if what in own else ENOUGH))
    return min(found, key=lambda one: one[1], default=None)


def _is_after(one: Candidate, other: Candidate) -> bool:
    """Whether one began clearly later than the other."""
    order = _order(one.first, other.first)
    return order is not None and order > 0


def _clearly_before(one: Candidate, other: Candidate) -> bool:
    first, second = one.first, other.first
    order = _order(first, second)
    if order:
        return order < 0
    if first.source == second.source and first.line is not None and second.line is not None:
        return first.line < second.line
    return False


def _order(one: Observation, other: Observation) -> int | None:
    """-1, 0, 1 as one is before, about together with, or after the other; None when that cannot be told."""
    if one.time is not None and other.time is not None and one.clock == other.clock:
        difference = one.time - other.time
        return 0 if abs(difference) <= CLOCK_TOLERANCE_S else (1 if difference > 0 else -1)
    if one.source == other.source and one.rank == other.rank and one.line is not None and other.line is not None:
        lines = one.line - other.line
        return 0 if abs(lines) <= LINE_TOLERANCE else (1 if lines > 0 else -1)
    return None
