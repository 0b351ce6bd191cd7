"""Reads the cards that ship with the package. Used by scan (patterns), diagnosis (knowledge) and cli (`explain`)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import msgspec
import yaml

from firstfault.catalogue.card import Card
from firstfault.errors import InputError, UsageError

__all__ = ["CARDS_DIR", "Catalogue", "load_card", "load_catalogue"]

CARDS_DIR = Path(__file__).parent / "cards"


class Catalogue(msgspec.Struct, frozen=True):
    """All cards by id.

    Attributes:
        cards: Cards by their own id, sorted by id.
    """

    cards: dict[str, Card]

    def resolve(self, cause: str) -> Card:
        """Return the card of a cause id or alias.

        Raises:
            UsageError: No card has that id.
        """
        if card := self.cards.get(cause):
            return card
        for card in self.cards.values():
            if any(fnmatchcase(cause, alias) for alias in card.aliases):
                return card
        raise UsageError(
            f"no fault is called {cause!r}",
            "list them with `firstfault explain`, or give the beginning of an id such as `network.`",
        )


def load_card(path: Path) -> Card:
    """Read one card file.

    Raises:
        InputError: Not YAML, or not the shape of `Card`; the message names the file and the field.
    """
    try:
        data = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
        return msgspec.convert(data, Card)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: not a fault card: {error}") from error


@cache
def load_catalogue() -> Catalogue:
    """Read every card that ships with the package.

    Raises:
        InputError: A card is not valid.
    """
    cards = (load_card(path) for path in CARDS_DIR.glob("*/*.yaml"))
    return Catalogue({card.id: card for card in sorted(cards, key=lambda card: card.id)})
