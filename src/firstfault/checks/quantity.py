"""Kubernetes resource quantities ("190Gi", "500m", "4") as numbers."""

from __future__ import annotations

import math
import re
from typing import Any

__all__ = ["parse_quantity"]

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([numkKMGTPE]i?)?)$")
_FACTORS = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def parse_quantity(value: Any) -> float | None:
    """Return a quantity in its base unit (bytes, cores, pieces), or None when it is not one or beyond all measure."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    match = _QUANTITY.fullmatch(str(value).strip())
    if match is None:
        return None
    number = float(match[1] + (match[2] or "")) * _FACTORS.get(match[3] or "", 1.0)
    return number if math.isfinite(number) else None
