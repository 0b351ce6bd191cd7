"""Guardrails, the catalogue and the checks speak of the same things."""

from __future__ import annotations

from firstfault.catalogue.loader import load_catalogue
from firstfault.guardrails import Options, guardrail_ids, load_guardrails, xid

ALL = load_guardrails(Options(), everything=True)


def test_every_cause_has_a_card():
    """`firstfault explain CAUSE` in an alert's annotation must answer."""
    catalogue = load_catalogue()
    for guardrail in ALL:
        for cause in [*guardrail.causes, *(alert.cause for alert in guardrail.alerts)]:
            if "{{" not in cause:
                assert catalogue.resolve(cause), f"{guardrail.id}: {cause}"
    for code in xid.isolate() + xid.program():
        assert catalogue.resolve(f"driver.xid.{code}")


def test_every_guardrail_that_a_card_names_exists():
    """A card says which guardrail would have noticed its fault."""
    named = {name for card in load_catalogue().cards.values() for name in card.alert.ids}

    assert named <= set(guardrail_ids())


def test_xid_codes_are_in_one_group_only():
    """Two rules for one code would call twice."""
    groups = [set(xid.isolate()), set(xid.program()), set(xid.silent())]

    assert sum(map(len, groups)) == len(set.union(*groups))
    assert {48, 74, 79} <= groups[0]
    assert {13, 31, 43} <= groups[1]
    assert {45, 14} <= groups[2]
    assert 154 not in set.union(*groups)
