"""Turns observations into evidence that may be shown: redacted, harmless on a terminal, with a readable time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from firstfault.model import Evidence, Observation, Role
from firstfault.model.redact import redact
from firstfault.model.safe_text import safe_text

__all__ = ["Citer", "cite"]

Citer = Callable[[Observation], Evidence]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cite(item: Observation) -> Evidence:
    """Return the line as evidence."""
    return Evidence(
        source=item.source,
        text=redact(safe_text(item.text)),
        role=item.role if isinstance(item.role, Role) else Role(item.role),
        line=item.line,
        entry=item.entry,
        offset=item.offset,
        rank=item.rank,
        time=_iso(item.time) if item.time is not None and not item.clock else None,
    )


def _iso(seconds: float) -> str:
    return (_EPOCH + timedelta(seconds=round(seconds, 3))).isoformat(timespec="milliseconds").replace("+00:00", "Z")
