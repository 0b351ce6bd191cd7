"""Reads the cards and signals that ship with the package: patterns for scan, knowledge for diagnosis and `explain`."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec

from firstfault._version import __version__
from firstfault.catalogue.cache import content_key, load_bytes, store_bytes
from firstfault.catalogue.card import Card
from firstfault.catalogue.signals import Causality, Rung, Signal, SignalFile
from firstfault.catalogue.xid import XID_SOURCES, xid_cards
from firstfault.errors import InputError, UsageError

__all__ = ["CARDS_DIR", "SIGNALS_DIR", "Catalogue", "load_card", "load_catalogue", "load_signal_file"]

CARDS_DIR = Path(__file__).parent / "cards"
SIGNALS_DIR = Path(__file__).parent / "signals"
T = TypeVar("T")
_NEAR, _ALIKE = 4, 0.8
_SHAPE = b"2"  # change it when the structs change in a way that old cached catalogues do not show


class Catalogue(msgspec.Struct, frozen=True):
    """All that is known, read once.

    Attributes:
        cards: Cards by their own id, sorted by id.
        rungs: The rungs of all ladders, in the order of climbing within each.
        signals: Lines that carry facts rather than faults, sorted by id.
        causality: Which families of faults explain which.
        key: Changes with any byte of the files that it was read from.
    """

    cards: dict[str, Card]
    rungs: list[Rung] = []
    signals: list[Signal] = []
    causality: list[Causality] = []
    key: str = ""

    def resolve(self, cause: str) -> Card:
        """Return the card of a cause id or alias, in capital letters or small ones.

        Raises:
            UsageError: No card has that id; the ids that come near are named.
        """
        given, cause = cause, cause.lower()
        if card := self.cards.get(cause):
            return card
        for card in self.cards.values():
            if any(fnmatchcase(cause, alias) for alias in card.aliases):
                return card
        from difflib import get_close_matches  # noqa: PLC0415 - only a typing error pays for it

        near = [known for known in self.cards if cause in known] or get_close_matches(cause, self.cards, cutoff=_ALIKE)
        hint = f"did you mean {' or '.join(near[:_NEAR])}? " if near else ""
        raise UsageError(
            f"no fault is called {given!r}",
            f"{hint}list them with `firstfault explain`, or give the beginning of an id such as `network.`",
        )


def load_card(path: Path) -> Card:
    """Read one card file.

    Raises:
        InputError: Not YAML, or not the shape of `Card`; the message names the file and the field.
    """
    return _read(path, path.read_bytes(), Card)


def load_signal_file(path: Path) -> SignalFile:
    """Read one file of signals, rungs or causality.

    Raises:
        InputError: Not YAML, or not the shape of `SignalFile`.
    """
    return _read(path, path.read_bytes(), SignalFile)


@cache
def load_catalogue() -> Catalogue:
    """Read every card and signal that ships with the package, from the cache when the files are the same.

    Raises:
        InputError: A card or signal file is not valid.
    """
    files = [(path, _bytes(path)) for path in _files()]
    parts = [part for path, data in files for part in (_id(path), data)] + [path.read_bytes() for path in XID_SOURCES]
    key = content_key(_SHAPE, __version__.encode(), *parts)
    if cached := load_bytes("catalogue", key):
        try:
            return msgspec.msgpack.decode(cached, type=Catalogue)
        except msgspec.MsgspecError:
            pass  # written by another version of the structs: build it anew
    catalogue = _build(files, key)
    store_bytes("catalogue", key, msgspec.msgpack.encode(catalogue))
    return catalogue


def _files() -> list[Path]:
    """Every card and file of signals, by path; paths as objects would take longer to sort than the files to read."""
    walk = [each for folder in (CARDS_DIR, SIGNALS_DIR) for each in os.walk(folder)]
    return [
        Path(name)
        for name in sorted(f"{folder}/{name}" for folder, _, names in walk for name in names if name.endswith(".yaml"))
    ]


def _bytes(path: Path) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - `Path.read_bytes` makes a buffer for each file
        return file.read()


def _id(path: Path) -> bytes:
    return f"{path.parent.name}/{path.name}".encode()


def _build(files: list[tuple[Path, bytes]], key: str) -> Catalogue:
    cards: list[Card] = []
    rungs: list[Rung] = []
    signals: list[Signal] = []
    causality: list[Causality] = []
    for path, data in files:
        if path.parent == SIGNALS_DIR:
            part = _read(path, data, SignalFile)
            rungs += part.rungs
            signals += part.signals
            causality += part.causality
        else:
            cards.append(_read(path, data, Card))
    cards += xid_cards()
    return Catalogue(
        cards={card.id: card for card in sorted(cards, key=lambda card: card.id)},
        rungs=rungs,
        signals=sorted(signals, key=lambda signal: signal.id),
        causality=causality,
        key=key,
    )


def _read(path: Path, data: bytes, shape: type[T]) -> T:
    import yaml  # noqa: PLC0415 - not needed where the catalogue comes from the cache

    try:
        return msgspec.convert(yaml.load(data, Loader=yaml.CSafeLoader), shape)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: not valid: {error}") from error
