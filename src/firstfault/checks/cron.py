"""Schedules of CronJobs: how long the longest pause between two runs is."""

from __future__ import annotations

import datetime as dt

__all__ = ["longest_pause_s"]

_NICKNAMES = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
              "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"}  # fmt: skip
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = {name: index for names in (
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
) for index, name in enumerate(names, 1)} | {
    name: index for index, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
}  # fmt: skip
_START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
_DAYS = 62


def longest_pause_s(schedule: str) -> float | None:
    """Return the seconds of the longest pause of a cron schedule within two months; None when it is no schedule."""
    text = schedule.strip().lower()
    if text.startswith("@every "):
        return _every(text.removeprefix("@every "))
    fields = _NICKNAMES.get(text, text).split()
    if len(fields) != len(_RANGES):
        return None
    sets = [_expand(field, low, high) for field, (low, high) in zip(fields, _RANGES, strict=True)]
    if any(item is None for item in sets):
        return None
    minutes, hours, days, months, weekdays = (item or set() for item in sets)
    if 7 in weekdays:
        weekdays.add(0)
    last, longest = None, 0.0
    for number in range(_DAYS):
        day = _START + dt.timedelta(days=number)
        by_date, by_week = day.day in days, day.isoweekday() % 7 in weekdays
        # When both are restricted either is enough, as in cron.
        runs = (by_date or by_week) if fields[2] != "*" and fields[4] != "*" else (by_date and by_week)
        if day.month not in months or not runs:
            continue
        for moment in (
            day + dt.timedelta(hours=hour, minutes=minute) for hour in sorted(hours) for minute in sorted(minutes)
        ):
            if last is not None:
                longest = max(longest, (moment - last).total_seconds())
            last = moment
    return longest or _DAYS * 86400.0


def _expand(field: str, low: int, high: int) -> set[int] | None:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        start, _, end = span.partition("-")
        first = low if start in {"*", "?"} else _value(start)
        last = high if start in {"*", "?"} or (step and not end) else _value(end) if end else first
        pace = int(step) if step.isdigit() else 0 if step else 1
        if first is None or last is None or not pace or not low <= first <= last <= high:
            return None
        found.update(range(first, last + 1, pace))
    return found


def _value(text: str) -> int | None:
    return int(text) if text.isdigit() else _NAMES.get(text)


def _every(text: str) -> float | None:
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    total, number = 0.0, ""
    for letter in text.strip():
        if letter.isdigit():
            number += letter
        elif letter in units and number:
            total, number = total + int(number) * units[letter], ""
        else:
            return None
    return None if number else total or None
