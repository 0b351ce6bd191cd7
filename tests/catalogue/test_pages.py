"""The page of every cause is what the cards say today, and every card says what it has and why it lacks the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.checks import load_checks
from firstfault.drills import bundled_scenarios
from firstfault.guardrails import guardrail_ids

ROOT = Path(__file__).parents[2]


def test_cause_pages_are_up_to_date():
    """`tools/generate-cause-pages` has been run since the last change of a card."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools/generate-cause-pages", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize("name", ["drill", "check", "alert"])
def test_every_card_has_its_links_or_says_why_not(name):
    """A card names drills, checks and alerts that exist, or gives the reason for having none."""
    known = {
        "drill": {scenario.name for scenario in bundled_scenarios()},
        "check": set(load_checks()),
        "alert": set(guardrail_ids()),
    }[name]
    for card in load_catalogue().cards.values():
        found = getattr(card, name)
        assert set(found.ids) <= known, f"{card.id}: {name} {set(found.ids) - known} does not exist"
        assert found.ids or found.none_because, f"{card.id}: no {name}, and no reason why"


def test_catalogue_is_as_large_as_promised():
    """At least 110 causes over five layers, at least 80 cards that cite the source of a sample."""
    cards = load_catalogue().cards.values()
    assert len([card for card in cards if not card.variant_of]) >= 110
    assert {card.layer for card in cards} == {"infra", "driver", "network", "workload", "observability"}
    assert sum(any(each.source for s in card.signatures for each in s.samples) for card in cards) >= 80
