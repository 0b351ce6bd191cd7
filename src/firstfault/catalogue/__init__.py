"""The fault catalogue: everything known about one fault in one file under `cards/`.

Detector, docs page, drill, alert and audit check hang from a card. Adding a fault is adding a file;
tests/catalogue walks the cards and says what is missing. `signals/` holds what is no fault: rungs, facts, health.
"""

from __future__ import annotations

from firstfault.catalogue.cache import content_key, load_bytes, store_bytes
from firstfault.catalogue.card import Card, Link, MistakenFor, Sample, Signature
from firstfault.catalogue.loader import Catalogue, load_catalogue
from firstfault.catalogue.signals import Causality, Rung, Signal

__all__ = [
    "Card",
    "Catalogue",
    "Causality",
    "Link",
    "MistakenFor",
    "Rung",
    "Sample",
    "Signal",
    "Signature",
    "content_key",
    "load_bytes",
    "load_catalogue",
    "store_bytes",
]
