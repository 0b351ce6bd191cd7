"""The fault catalogue: everything known about one fault in one file under `cards/`.

Detector, docs page, drill, alert and audit check hang from a card. Adding a fault is adding a file;
tests/catalogue walks the cards and says what is missing.
"""

from __future__ import annotations

from firstfault.catalogue.card import Card, Link, MistakenFor, Sample, Signature
from firstfault.catalogue.loader import Catalogue, load_catalogue

__all__ = [
    "Card",
    "Catalogue",
    "Link",
    "MistakenFor",
    "Sample",
    "Signature",
    "load_catalogue",
]
