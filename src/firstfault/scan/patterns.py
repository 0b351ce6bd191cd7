"""The table of patterns that one pass over the input looks for: the signatures of all cards and all signals."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from firstfault.model import Role
from firstfault.scan.prefix import parse_prefix

if TYPE_CHECKING:
    from firstfault.catalogue import Catalogue

__all__ = ["SIGNAL_PREFIX", "Pattern", "build_patterns"]

SIGNAL_PREFIX = "signal/"


@dataclass(frozen=True)
class Pattern:
    """One row of the table.

    Attributes:
        key: `card-id/signature-id`, or `signal/signal-id`.
        cause: Cause id that a report names (the broader one for variants); "" for signals.
        regex: The pattern as the card or signal gives it.
        unless: Veto pattern, or "".
        kinds: Source kinds on which it counts; empty for all.
        first_only: One match in each chunk is enough.
    """

    key: str
    cause: str
    role: Role
    strength: float
    regex: str
    ignore_case: bool = False
    unless: str = ""
    kinds: tuple[str, ...] = ()
    first_only: bool = False
    rung: str = field(default="", compare=False)
    state: str = field(default="", compare=False)

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern for confirming and capturing on one decoded line."""
        return re.compile(self.regex, re.IGNORECASE if self.ignore_case else 0)

    @cached_property
    def veto(self) -> re.Pattern[str] | None:
        """The veto pattern, compiled."""
        return re.compile(self.unless) if self.unless else None

    @cached_property
    def names_fault(self) -> bool:
        """Whether a line that only mentions it proves less: not where a rule file itself is the evidence."""
        return bool(self.cause) and not self.cause.startswith("observability.")

    @cached_property
    def anchored(self) -> bool:
        """Whether it says what a message begins with, so that prefixes matter."""
        return any(part[0] == "^" for part in _ANCHOR.finditer(self.regex))

    @cached_property
    def whatever_numbers(self) -> re.Pattern[str]:
        """A pattern that matches at least where this one does, and on any line as it does with all digits zero."""
        return re.compile(_NUMBER.sub(_any_number, self.superset), re.IGNORECASE if self.ignore_case else 0)

    @cached_property
    def heeds_numbers(self) -> bool:
        """Whether, of two lines that differ in digits only, it may match one and not the other.

        A veto may compare numbers, too, by a reference to what it captured ("9/9 reachable").
        """
        return any(
            part.isdigit()
            or (part.startswith("[") and _SOME_DIGITS.search(part) is not None)
            or (part.startswith("\\") and part[1:].isdigit())
            for text in (self.regex, self.unless)
            for part in _NUMBER.findall(text)
        )

    def confirm(self, raw: str, message: str | None = None) -> re.Match[str] | None:
        """Return the match on a line, or on its message where prefixes matter; None if there is none or it is vetoed.

        Args:
            raw: The whole line.
            message: The line without its prefixes; read off it when needed, if None.
        """
        match = self.compiled.search(raw)
        if match is None and self.anchored:
            match = self.compiled.search(raw[parse_prefix(raw).start :] if message is None else message)
        if match is None or (self.veto is not None and self.veto.search(raw)):
            return None
        return match

    @cached_property
    def superset(self) -> str:
        """The pattern as an engine may look for it on raw lines.

        Without its `^`, since what may stand before the message is not known there; and with blanks before its `$`:
        they are taken off a line before a pattern is confirmed on it.
        """
        return _ANCHOR.sub(lambda found: _ON_RAW_LINES.get(found[0], found[0]), self.regex)


# What holds digits that are not to be looked for: escapes, quantities, names. Then classes, and digits.
_NUMBER = re.compile(r"\\.|\{\d+(?:,\d*)?\}|\(\?P<\w+>|\[\^?\]?(?:\\.|[^\]\\])*\]|\d")


# In a class: digits other than all of them.
_SOME_DIGITS = re.compile(r"(?<!0-)(?<!\\)\d(?!-9)|\d-[0-8]")


def _any_number(part: re.Match[str]) -> str:
    """Let a digit be any digit, and a class that holds some digits all of them."""
    text = part[0]
    if text.startswith("[^"):
        return "[\\s\\S]" if any(char.isdigit() for char in text.replace("0-9", "")) else text
    if text.startswith("["):
        return f"(?:{text}|\\d)"  # classes without digits, too: a range may hold them
    return "\\d" if text.isdigit() else text


# An escape, a whole character class (in which ^ negates), or an anchor.
_ANCHOR = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[\^$]")
_ON_RAW_LINES = {"^": "", "$": r"[ \t\r]*$"}


def build_patterns(catalogue: Catalogue) -> list[Pattern]:
    """Lay out the table: cards first, then signals, each in the order of their ids."""
    rows = [
        Pattern(
            key=f"{card.id}/{signature.id}",
            cause=card.cause,
            role=signature.role,
            strength=signature.strength,
            regex=signature.pattern,
            ignore_case=signature.ignore_case,
            unless=signature.unless,
            kinds=tuple(signature.kinds),
            rung=signature.rung,
        )
        for card in catalogue.cards.values()
        for signature in card.signatures
    ]
    rows += [
        Pattern(
            key=SIGNAL_PREFIX + signal.id,
            cause="",
            role=Role.CONTEXT,
            strength=signal.health,
            regex=signal.pattern,
            ignore_case=signal.ignore_case,
            unless=signal.unless,
            first_only=signal.first_only,
            rung=signal.rung,
            state=signal.state,
        )
        for signal in catalogue.signals
    ]
    return rows
