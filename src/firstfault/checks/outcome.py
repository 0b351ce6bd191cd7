"""What a check function yields: one outcome for each thing that it judged."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from firstfault.checks.edits import Edit
from firstfault.checks.located import Place, Unresolved
from firstfault.model.audit import Result

__all__ = ["Outcome", "failed", "passed", "unknown", "unresolved"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One judgement.

    Attributes:
        result: pass · fail · unknown.
        place: The line to look at: the most specific one that exists.
        subject: What was judged, stable over edits: a Terraform address, `Kind/namespace/name`, a rule's name; with
            `#container` or similar appended where one object is judged several times.
        message: One or two sentences with the values that decided. For unknown: what could not be known and why.
        fix: Overrides the general fix of check.yaml where this case needs a more exact one.
        edits: The change that `--fix` may make, where one value is plainly the right one.
    """

    result: Result
    place: Place
    subject: str
    message: str
    fix: str = ""
    edits: list[Edit] = []


def passed(place: Place, subject: str, message: str = "") -> Outcome:
    """Return the outcome "the hole is closed here"."""
    return Outcome(result="pass", place=place, subject=subject, message=message)


def failed(place: Place, subject: str, message: str, fix: str = "", edits: Sequence[Edit] = ()) -> Outcome:
    """Return the outcome "the hole is open here"."""
    return Outcome(result="fail", place=place, subject=subject, message=message, fix=fix, edits=list(edits))


def unknown(place: Place, subject: str, message: str) -> Outcome:
    """Return the outcome "could not tell"; `message` says what is missing."""
    return Outcome(result="unknown", place=place, subject=subject, message=message)


def unresolved(place: Place, subject: str, what: str, value: Unresolved) -> Outcome:
    """Return the outcome "could not tell" for a value that a static reading cannot resolve.

    Args:
        what: The setting whose value it is, as its file spells it.
        value: The unresolved value, whose reason ends the message.
    """
    return unknown(place, subject, f"{what} cannot be resolved: {value.reason}")
