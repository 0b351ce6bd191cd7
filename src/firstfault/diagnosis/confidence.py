"""How sure the verdict is: the support of the first cause, less what speaks for another one."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstfault.diagnosis.causality import Standing

__all__ = ["calibrated", "confidence_of"]

MOST = 0.97
# Support → share of verdicts that were right, over public failure reports seen for the first time (docs/accuracy.md).
# Up to 0.68 it is drawn below what was measured: being sure of something wrong costs more than being unsure of
# something right, and 0.8 is where people begin to act on a verdict without looking.
CURVE = (
    (0.0, 0.0),
    (0.2, 0.42),
    (0.35, 0.64),
    (0.45, 0.7),
    (0.55, 0.75),
    (0.68, 0.79),
    (0.75, 0.9),
    (0.85, 0.95),
    (1.0, 0.98),
)


def confidence_of(standing: Standing) -> float:
    """Return 0 to 1: in how many of a hundred such inputs the first cause is right."""
    support = standing.first.support
    rival = max((one.support for one in standing.independent), default=0.0)
    return calibrated(support * (1 - 0.45 * min(1.0, rival / max(support, 1e-9)) * rival))


def calibrated(support: float) -> float:
    """Return the confidence that goes with a support: linear between the points of the curve."""
    for (left, low), (right, high) in pairwise(CURVE):
        if support <= right:
            return min(MOST, low + (high - low) * (support - left) / (right - left))
    return MOST
