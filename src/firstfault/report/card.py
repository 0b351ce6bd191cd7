"""The card of a fault as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from firstfault.report.page import Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.catalogue import Card

__all__ = ["CARD_SCHEMA", "CardList", "CardRow", "render_card", "render_card_list"]

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


def render_card(card: Card, format_: str, *, width: int | None = None) -> str:
    """Render one card as text or JSON; `width` is that of the terminal, None where there is none."""
    if format_ == "json":
        named = {"schema": CARD_SCHEMA, **msgspec.to_builtins(card)}
        return msgspec.json.format(msgspec.json.encode(named), indent=2).decode()
    page = Page(width)
    parts = [*page.row(f"{card.id}  ({card.layer})"), *page.row(card.title), "", *page.prose(_line(card.what))]
    if card.aliases:
        parts += ["", *page.row(f"Also called: {', '.join(card.aliases)}")]
    parts += _section(page, "How to confirm it", card.confirm)
    parts += _section(page, "Fix", card.fix)
    parts += _section(page, "Prevention", card.prevention)
    parts += _section(
        page, "Easily mistaken for", [f"{other.cause}: {other.tell_apart}" for other in card.mistaken_for]
    )
    parts += ["", "What it looks like"]
    for signature in card.signatures:
        sample = signature.samples[0]
        head = f"{signature.role} {signature.strength:.2f}  {signature.id}  ({sample.program} {sample.versions})"
        parts += page.row(head, "  ")
        for line in sample.text.splitlines():
            parts += page.row(line, "      ")
    for name, link in (("Drill", card.drill), ("Audit check", card.check), ("Alert", card.alert)):
        why = link.none_because or "not written yet"
        parts += page.row(f"{name}: {', '.join(link.ids) if link.ids else 'none: ' + why}")
    parts += _section(page, "References", card.references)
    return "\n".join(parts)


def render_card_list(cards: Sequence[Card], format_: str, *, width: int | None = None) -> str:
    """Render the list of cards as text or JSON; `width` is that of the terminal, None where there is none."""
    if format_ == "json":
        rows = [CardRow(cause=card.id, layer=card.layer, title=card.title) for card in cards]
        listed = {"schema": LIST_SCHEMA, "causes": rows}
        return msgspec.json.format(msgspec.json.encode(listed), indent=2).decode()
    page, longest = Page(width), max((len(card.id) for card in cards), default=0)
    return "\n".join(line for card in cards for line in page.row(f"{card.id:<{longest}}  {card.title}"))


def _line(text: str) -> str:
    return " ".join(text.split())


def _section(page: Page, title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    lines = ["", title]
    for item in items:
        lines += page.prose(_line(item), "  - ")
    return lines
