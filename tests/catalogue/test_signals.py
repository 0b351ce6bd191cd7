"""Walks every signal: what it promises must hold, and the rules of causality must name causes that exist."""

from __future__ import annotations

import re

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.scan.prefix import parse_prefix

CATALOGUE = load_catalogue()


@pytest.mark.parametrize("signal", CATALOGUE.signals, ids=lambda signal: signal.id)
def test_signal_keeps_its_promises(signal):
    """Every sample matches, with or without its prefix; every negative does not; the rung exists."""
    pattern = re.compile(signal.pattern, re.IGNORECASE if signal.ignore_case else 0)
    veto = re.compile(signal.unless) if signal.unless else None
    assert not signal.rung or signal.rung in {rung.id for rung in CATALOGUE.rungs}
    assert signal.samples
    for sample in signal.samples:
        message = sample.text[parse_prefix(sample.text).start :]
        assert pattern.search(sample.text) or pattern.search(message)
        assert not (veto and veto.search(sample.text))
    for text in signal.negatives:
        assert not pattern.search(text) or (veto and veto.search(text))


def test_signal_ids_are_unique():
    """Code refers to signals by id."""
    ids = [signal.id for signal in CATALOGUE.signals]
    assert len(ids) == len(set(ids))
