"""Writes the verdict: what a person reads first, each sentence backed by a cited line or a card."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from firstfault.diagnosis.arithmetic import fit_advice, vllm_fit
from firstfault.diagnosis.derived import DERIVED
from firstfault.diagnosis.formula import formula
from firstfault.diagnosis.xid import recovery_action
from firstfault.model import Observation, Role, RuledOut, Transport, Verdict
from firstfault.model.ranks import rank_ranges

if TYPE_CHECKING:
    from firstfault.catalogue import Card, Catalogue
    from firstfault.diagnosis.candidates import Candidate
    from firstfault.diagnosis.causality import Standing
    from firstfault.diagnosis.cite import Citer
    from firstfault.diagnosis.facts import Facts

__all__ = ["write_verdict"]

EVIDENCE_LINES = 8
# The same words of a thousand ranks are one piece of evidence.
MOST_ALIKE = 3
MOST_RUNS = 8


def write_verdict(
    candidate: Candidate,
    confidence: float,
    standing: Standing,
    facts: Facts,
    catalogue: Catalogue,
    cite: Citer,
    transport: Transport | None,
) -> Verdict:
    """Write the verdict on one candidate."""
    card = _card_of(candidate, catalogue)
    title = card.title if card else candidate.cause
    rests_on, ruled = formula(facts, candidate.cause)
    ruled += _past_it(card, candidate, facts, ruled)
    fit = vllm_fit(candidate, facts.servers)
    if fit is not None:
        rests_on = f"In numbers: {fit.summary}. {rests_on}".strip()
    return Verdict(
        cause=candidate.cause,
        layer=candidate.cause.split(".", 1)[0],
        title=title,
        confidence=round(confidence, 2),
        summary=_summary(candidate, title, rests_on, cite(candidate.first).where),
        evidence=[cite(item) for item in _evidence(candidate, standing, facts)],
        transport=transport,
        consequences=_consequences(candidate, standing, catalogue),
        ruled_out=ruled,
        next_steps=[*(card.confirm if card else ()), *_tell_apart(card, ruled, standing)],
        fix=[*_asked_by_driver(candidate, facts), *(fit_advice(fit) if fit else ()), *(card.fix if card else ())],
        prevention=list(card.prevention) if card else [],
    )


def _card_of(candidate: Candidate, catalogue: Catalogue) -> Card | None:
    """The card that speaks for a candidate: of the variant whose line is strongest, else of the cause itself."""
    strongest = max(candidate.roots, key=lambda item: item.strength, default=None)
    variant = catalogue.cards.get(strongest.signature.rsplit("/", 1)[0]) if strongest else None
    return variant or catalogue.cards.get(candidate.cause)


def _summary(candidate: Candidate, title: str, rests_on: str, where: str) -> str:
    ranks = sorted({item.rank for item in candidate.roots if item.rank is not None})
    who = f" Seen by rank{'s' if len(ranks) > 1 else ''} {_spell(ranks)}." if ranks else ""
    who += "".join(_details(candidate))
    return f"{title}.{who} First shown at {where}. {rests_on}".strip()


# What a rule of `derive` found by comparing ranks → how to say it.
_DETAILS = {
    "behind": "Behind its peers: rank {}.",
    "late": "Late, and without a complaint of its own: rank {}.",
    "silent": "Its log just ends: rank {}.",
    "ops": "They wait in {}.",
}


def _details(candidate: Candidate) -> list[str]:
    said: dict[str, str] = {}
    for item in candidate.roots:
        for name, sentence in _DETAILS.items():
            if item.fields.get(name) and DERIVED in item.signature:
                value = item.fields[name]
                if name != "ops":
                    value = _spell([int(rank) for rank in value.split(",")])
                said.setdefault(name, " " + sentence.format(value))
    return list(said.values())


def _spell(ranks: list[int]) -> str:
    """Ranks in words: "0-3, 7", and how many more where there are many runs."""
    runs = [str(a) if a == b else f"{a}-{b}" for a, b in rank_ranges(ranks)]
    more = f" and {len(runs) - MOST_RUNS} more runs of ranks" if len(runs) > MOST_RUNS else ""
    return ", ".join(runs[:MOST_RUNS]) + more


def _asked_by_driver(candidate: Candidate, facts: Facts) -> list[str]:
    """What the driver itself asks for: XID 154 follows another one and names the recovery action."""
    if not candidate.cause.startswith("driver."):
        return []
    for item in reversed(facts.faults):
        action = recovery_action(item.text) if item.fields.get("xid") == "154" else None
        if action is not None and action.action != "none":
            return [f"The driver asks for: {action.label} ({action.action}, XID 154)."]
    return []


def _evidence(candidate: Candidate, standing: Standing, facts: Facts) -> list[Observation]:
    """The lines to show: roots first and of several ranks, then what goes with them, then a consequence or two."""
    chosen: dict[tuple[str, int | None, str], Observation] = {}
    alike: Counter[str] = Counter()
    strongest = sorted(candidate.roots, key=lambda item: -item.strength)
    # Of a consequence the first line that is not the root of something else: an exception may be of either.
    others = {_place(item) for one in standing.independent for item in one.roots}
    consequences = [one for one, earlier, _ in standing.explained if earlier is candidate]
    follow = [
        msgspec.structs.replace(item, role=Role.CONSEQUENCE)
        for one in consequences
        for item in [line for line in one.roots if _place(line) not in others][:1]
    ]
    store = facts.signals.get("store.clients", [])[:1] if candidate.cause.startswith("network.c10d") else []
    for item in (*strongest, *candidate.others, *store, *follow):
        text_key = _place(item)
        alike[item.signature] += text_key not in chosen
        if alike[item.signature] <= MOST_ALIKE and len(chosen) < EVIDENCE_LINES:
            chosen.setdefault(text_key, item)
    return list(chosen.values())


def _place(item: Observation) -> tuple[str, int | None, str]:
    return item.source, item.order, "" if item.order is not None else item.text


def _consequences(candidate: Candidate, standing: Standing, catalogue: Catalogue) -> list[str]:
    found = []
    for later, earlier, why in standing.explained:
        if earlier is candidate or candidate is standing.first:
            card = catalogue.cards.get(later.cause)
            found.append(f"{card.title if card else later.cause} ({later.cause}): {why}.")
    return found


def _past_it(card: Card | None, candidate: Candidate, facts: Facts, ruled: list[RuledOut]) -> list[RuledOut]:
    """Causes that look alike but stop a rank on a rung which the ranks concerned have passed."""
    ranks = {item.rank for item in candidate.roots}
    heights = [max(map(facts.order.__getitem__, one.reached), default=-1) for one in facts.ranks if one.rank in ranks]
    if card is None or not heights:
        return []
    lowest = min(heights)
    known = {item.cause for item in ruled}
    found = []
    for other in card.mistaken_for:
        rung = facts.rung_of_cause(other.cause)
        if rung and facts.order[rung] <= lowest and other.cause not in known:
            found.append(RuledOut(cause=other.cause, why=f"it stops a rank at {rung}, and these ranks got past that"))
    return found


def _tell_apart(card: Card | None, ruled: list[RuledOut], standing: Standing) -> list[str]:
    """How to tell it from what looks alike and is not ruled out."""
    settled = {item.cause for item in ruled} | {later.cause for later, _, _ in standing.explained}
    if card is None:
        return []
    return [
        f"If in doubt whether it is {other.cause}: {other.tell_apart}"
        for other in card.mistaken_for
        if other.cause not in settled
    ]
