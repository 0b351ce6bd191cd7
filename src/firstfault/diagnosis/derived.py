"""Observations that rules make: what a line means beside others, told as if a card had seen it."""

from __future__ import annotations

import msgspec

from firstfault.model import Observation, Role

__all__ = ["DERIVED", "derived"]

# What the signatures of such observations hold, and no card's. They have looked at what came after their line already.
DERIVED = "/derived-"


def derived(line: Observation, cause: str, rule: str, strength: float, **fields: str) -> Observation:
    """Return a root of a cause that rests on a line.

    Args:
        line: The line to cite.
        cause: The cause's id.
        rule: Name of the rule; with the cause it makes the signature.
        strength: As of a card's signature.
        fields: What the rule found out, beside the line's own fields.
    """
    return msgspec.structs.replace(
        line,
        signature=f"{cause}{DERIVED}{rule}",
        cause=cause,
        role=Role.ROOT,
        strength=strength,
        fields={**line.fields, **fields},
    )
