"""The card of a fault as a person reads it."""

from __future__ import annotations

from textwrap import indent, wrap
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.catalogue import Card

__all__ = ["CARD_SCHEMA", "CardList", "CardRow", "render_card", "render_card_list"]

WIDTH = 100
LIST_SCHEMA = "firstfault.explain/1"
CARD_SCHEMA = "firstfault.explain-card/1"


class CardRow(msgspec.Struct, frozen=True, kw_only=True):
    """A fault in the list of all."""

    cause: str
    layer: str
    title: str


class CardList(msgspec.Struct, frozen=True, kw_only=True):
    """What `explain` prints without a cause, or with the beginning of several.

    Attributes:
        causes: By id.
        schema: Version of this format.
    """

    causes: list[CardRow]
    schema: str = LIST_SCHEMA


def render_card(card: Card, format_: str) -> str:
    """Render one card as text or JSON."""
    if format_ == "json":
        named = {"schema": CARD_SCHEMA, **msgspec.to_builtins(card)}
        return msgspec.json.format(msgspec.json.encode(named), indent=2).decode()
    parts = [f"{card.id}  ({card.layer})", card.title, "", *wrap(card.what, WIDTH)]
    if card.aliases:
        parts += ["", f"Also called: {', '.join(card.aliases)}"]
    parts += _section("How to confirm it", card.confirm)
    parts += _section("Fix", card.fix)
    parts += _section("Prevention", card.prevention)
    parts += _section("Easily mistaken for", [f"{other.cause}: {other.tell_apart}" for other in card.mistaken_for])
    parts += ["", "What it looks like"]
    for signature in card.signatures:
        sample = signature.samples[0]
        parts.append(
            f"  {signature.role} {signature.strength:.2f}  {signature.id}  ({sample.program} {sample.versions})"
        )
        parts.append(indent(sample.text, "      "))
    for name, link in (("Drill", card.drill), ("Audit check", card.check), ("Alert", card.alert)):
        why = link.none_because or "not written yet"
        parts.append(f"{name}: {', '.join(link.ids) if link.ids else 'none: ' + why}")
    parts += _section("References", card.references)
    return "\n".join(parts)


def render_card_list(cards: Sequence[Card], format_: str) -> str:
    """Render the list of cards as text or JSON."""
    if format_ == "json":
        rows = [CardRow(cause=card.id, layer=card.layer, title=card.title) for card in cards]
        listed = {"schema": LIST_SCHEMA, "causes": rows}
        return msgspec.json.format(msgspec.json.encode(listed), indent=2).decode()
    width = max((len(card.id) for card in cards), default=0)
    return "\n".join(f"{card.id:<{width}}  {card.title}" for card in cards)


def _section(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    lines = ["", title]
    for item in items:
        lines += wrap(item, WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return lines
