"""Renders reports for people and machines. Text of foreign programs is neutralised here."""

from __future__ import annotations

from firstfault.report.card import render_card, render_card_list
from firstfault.report.triage import render_triage

__all__ = ["render_card", "render_card_list", "render_triage"]
