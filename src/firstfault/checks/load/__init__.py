"""Turns paths into an `Inventory`: finds the files, tells their kinds by content, reads them with lines."""

from __future__ import annotations

from firstfault.checks.load.loader import inventory_of_texts, load_inventory

__all__ = ["inventory_of_texts", "load_inventory"]
