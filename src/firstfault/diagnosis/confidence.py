"""How sure the verdict is: the support of the first cause, less what speaks for another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstfault.diagnosis.causality import Standing

__all__ = ["confidence_of"]

MOST = 0.97


def confidence_of(standing: Standing) -> float:
    """Return 0 to 1: in how many of a hundred such inputs the first cause is right."""
    support = standing.first.support
    rival = max((one.support for one in standing.independent), default=0.0)
    return min(MOST, support * (1 - 0.45 * min(1.0, rival / max(support, 1e-9)) * rival))
