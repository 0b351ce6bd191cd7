"""Walks every card of the catalogue: what a card promises must hold."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.catalogue.loader import CARDS_DIR, load_card
from firstfault.scan.literals import required_literals
from firstfault.scan.patterns import build_patterns

PATHS = sorted(CARDS_DIR.glob("*/*.yaml"))
RUNGS = {"", *(rung.id for rung in load_catalogue().rungs)}
UNSHARED_DIALECT = re.compile(r"\(\?(?:[=!]|<[=!]|P=|>)|\\[1-9]|\\[AZzGK]|[*+?}]\+")


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_card_keeps_its_promises(path):
    """Every sample matches, every negative does not, and the pattern is in the dialect that both engines share."""
    card = load_card(path)
    assert path.stem == card.id, "the file is named after the cause"
    assert path.parent.name == card.layer
    assert len(card.id.split(".")) == 3
    assert card.fix, "a card says what ends the incident"
    assert card.confirm, "a card says how to confirm it"
    ids = [signature.id for signature in card.signatures]
    assert len(ids) == len(set(ids))
    for signature in card.signatures:
        where = f"{card.id}/{signature.id}"
        assert signature.rung in RUNGS, where
        assert 0 <= signature.strength <= 1, where
        assert not UNSHARED_DIALECT.search(signature.pattern), f"{where}: not in the shared dialect"
        flags = re.IGNORECASE if signature.ignore_case else 0
        pattern = re.compile(signature.pattern, flags)
        veto = re.compile(signature.unless) if signature.unless else None
        assert not pattern.search(""), f"{where} matches the empty line"
        assert signature.samples, f"{where} has no sample"
        for sample in signature.samples:
            assert any(
                pattern.search(line) and not (veto and veto.search(line)) for line in sample.text.splitlines()
            ), f"{where}: does not match its sample {sample.text!r}"
        for text in signature.negatives:
            for line in text.splitlines():
                assert not pattern.search(line) or (veto and veto.search(line)), (
                    f"{where}: matches its negative {line!r}"
                )


def test_references_between_cards_resolve():
    """`explains` and `mistaken_for` name causes that exist; aliases clash with no other card."""
    catalogue = load_catalogue()
    known = set(catalogue.cards)
    reported = {card.cause for card in catalogue.cards.values()}
    for card in catalogue.cards.values():
        for glob in card.explains:
            # A variant is reported as its broader cause, so its own id here would explain nothing.
            assert any(fnmatchcase(cause, glob) for cause in reported), f"{card.id} explains {glob}"
        for other in card.mistaken_for:
            assert other.cause in known, f"{card.id} mistaken for {other.cause}"
        if card.variant_of:
            broader = catalogue.cards[card.variant_of]
            assert not broader.variant_of, f"{card.id}: {broader.id} is a variant itself"
            assert broader.layer == card.layer
        for alias in card.aliases:
            assert alias not in known, f"{card.id}: alias {alias} is a card of its own"


def test_the_engine_can_sieve_for_every_signature():
    """Every pattern has a literal that all of its matches hold; without one it would slow down every scan."""
    weak = [
        pattern.key
        for pattern in build_patterns(load_catalogue())
        if required_literals(pattern.superset, once=pattern.first_only) is None
    ]
    assert weak == []
