"""Reads the timestamps of log shippers into seconds since the epoch (UTC)."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

__all__ = ["parse_time", "parse_timestamp"]

_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,12}))?\d*\s?(Z|UTC|[+-]\d\d:?\d\d)?", re.ASCII
)
# Numbers this large are milliseconds, microseconds, nanoseconds: seconds stay below until the year 5138.
_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
_EARLIEST = 631_152_000.0  # 1990: smaller numbers are counters or uptimes, not times
_LATEST = 1e11


@lru_cache(maxsize=256)
def _whole_second(date: str, clock: str, zone: str) -> float | None:
    """Return the epoch of a second; shippers print many lines per second, so the cache answers nearly always."""
    if zone in {"", "Z", "UTC"}:
        zone = "+00:00"
    try:
        return datetime.fromisoformat(f"{date}T{clock}{zone}").timestamp()
    except ValueError:
        return None


def parse_timestamp(text: str) -> float | None:
    """Read an RFC 3339 time, with a blank instead of T and without a zone (then UTC) too.

    Args:
        text: Nothing but the time.
    """
    if text[-1:] == "Z" and text[10:11] == "T" and text[19:20] in {".", "Z"}:  # as most shippers write it
        date, clock, fraction, zone = text[:10], text[11:19], text[20:-1][:12], "Z"
        if fraction and not (fraction.isascii() and fraction.isdecimal()):
            return None
    elif (match := _RFC3339.fullmatch(text)) is not None:
        date, clock, fraction, zone = match.groups()
    else:
        return None
    second = _whole_second(date, clock, zone or "")
    if second is None:
        return None
    time = second + int(fraction) / 10 ** len(fraction) if fraction else second
    return time if _EARLIEST <= time < _LATEST else None


def parse_time(value: Any) -> float | None:
    """Read what a JSON field holds as a time: RFC 3339 text, or a number of seconds, ms, µs or ns since the epoch."""
    if isinstance(value, str):
        if (parsed := parse_timestamp(value)) is not None:
            return parsed
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    if value > 1e20:  # beyond any nanosecond, and maybe beyond a float
        return None
    for threshold, factor in _UNITS:
        if value >= threshold:
            value /= factor
            break
    return float(value) if _EARLIEST <= value < _LATEST else None
