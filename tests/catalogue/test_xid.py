"""The table of XID codes and the cards made of it."""

from __future__ import annotations

import re

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.catalogue.xid import load_xid_table, xid_cards

TABLE = load_xid_table()


@pytest.mark.parametrize("card", xid_cards(), ids=lambda card: card.id)
def test_every_code_keeps_the_promises_of_a_card(card):
    """Samples match, negatives do not, and no code matches another code's line."""
    assert card.fix
    assert card.confirm
    assert any(sample.source for signature in card.signatures for sample in signature.samples)
    for signature in card.signatures:
        pattern = re.compile(signature.pattern)
        veto = re.compile(signature.unless) if signature.unless else None
        for sample in signature.samples:
            assert pattern.search(sample.text), sample.text
            assert not (veto and veto.search(sample.text)), sample.text
        for text in signature.negatives:
            assert not pattern.search(text), text


def test_every_assigned_code_has_exactly_one_card():
    """1 to 173 without a gap and 177, each under one cause id that the catalogue knows."""
    codes = {*TABLE.codes, *TABLE.named}
    assert codes == {*range(1, 174), 177}
    assert not set(TABLE.codes) & set(TABLE.named)
    catalogue = load_catalogue()
    for code in codes:
        assert TABLE.cause(code) in catalogue.cards
        assert catalogue.resolve(f"driver.xid.{code}").id == TABLE.cause(code)


def test_rows_only_name_actions_that_exist():
    for code, row in TABLE.codes.items():
        assert row.now in TABLE.actions, code
        assert not row.then or row.then in TABLE.actions, code
        assert row.origin in TABLE.origins, code


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:3b:00): 31",
        "NVRM: Xid (0000:3b:00): 31, 0003 00000000",
        "NVRM: Xid (PCI:0000:3b:00.0): 31, pid=12, name=a b c, Ch 00000010",
        "[1.0] NVRM: Xid (PCI:0000:3b:00): 31, pid='<unknown>', name=<unknown>, MMU Fault",
        "Nov 30 10:00:00 n1 kernel: NVRM: Xid (PCI:0009:01:00): 31, pid=7, name=python3",
        "Xid (PCI:0000:3b:00): 31, Ch 00000010",
    ],
)
def test_all_spellings_of_the_line_are_read(text):
    """With and without PCI:, function digit, process, and text."""
    found = [
        card.id
        for card in xid_cards()
        for signature in card.signatures
        if signature.id == "kernel-line" and re.search(signature.pattern, text)
    ]
    assert found == ["driver.xid.31"]


def test_pid_and_name_are_captured():
    card = load_catalogue().cards["driver.xid.43"]
    match = re.search(card.signatures[0].pattern, "NVRM: Xid (PCI:0000:02:00): 43, pid=2381615, name=python3")
    assert match is not None
    assert match.groupdict() == {"pci": "0000:02:00", "xid": "43", "pid": "2381615", "name": "python3"}
