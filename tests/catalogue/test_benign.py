"""Lines that healthy programs print must not look like faults to any card."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.model import Role

BENIGN = Path(__file__).parent / "benign"
LINES = [
    (path.stem, number, line)
    for path in sorted(BENIGN.glob("*.txt"))
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
    if line.strip()
]
SAYS_NOTHING = 0.3  # Roots below this never make a verdict against signs of health.


@pytest.fixture(scope="module")
def roots():
    """Every root signature that could make a verdict, compiled."""
    found = []
    for card in load_catalogue().cards.values():
        for signature in card.signatures:
            if signature.role is Role.ROOT and signature.strength >= SAYS_NOTHING:
                flags = re.IGNORECASE if signature.ignore_case else 0
                veto = re.compile(signature.unless) if signature.unless else None
                found.append((f"{card.id}/{signature.id}", re.compile(signature.pattern, flags), veto))
    return found


@pytest.mark.parametrize(("program", "number", "line"), LINES, ids=lambda value: str(value)[:40])
def test_no_card_takes_a_benign_line_for_a_fault(roots, program, number, line):
    """A line of a healthy run matches no root signature that could make a verdict."""
    blamed = [name for name, pattern, veto in roots if pattern.search(line) and not (veto and veto.search(line))]
    assert not blamed, f"{program}.txt line {number}"
