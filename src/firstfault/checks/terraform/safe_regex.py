"""Regular expressions of untrusted configurations: only those that cannot run away on Python's engine."""

from __future__ import annotations

import re
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parser  # type: ignore[attr-defined]
from typing import Any

__all__ = ["compile_safely"]

_MAX_PATTERN = 500
_MAX_WORK = 10_000_000
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)


def compile_safely(pattern: str, text: str) -> re.Pattern[str]:
    """Compile a pattern that is to be used on `text`.

    Raises:
        ValueError: Too long, not valid for Python, or with a repeat inside a repeat, which may take exponential time.
    """
    if len(pattern) > _MAX_PATTERN:
        raise ValueError("too long")
    try:
        parsed = sre_parser.parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(str(error)) from error
    # A search backtracks over every split of the text between its unbounded repeats.
    if len(text) ** (_repeats(parsed, 0) + 1) > _MAX_WORK or _nested(parsed, inside=False):
        raise ValueError("the pattern may take too long")
    return re.compile(pattern)


def _children(argument: Any) -> list[Any]:
    if isinstance(argument, sre_parser.SubPattern):
        return [argument]
    if isinstance(argument, (tuple, list)):
        return [child for item in argument for child in _children(item)]
    return []


def _nested(pattern: Any, *, inside: bool) -> bool:
    for code, argument in pattern:
        repeat = code in _REPEATS and argument[1] > 1
        if inside and (repeat or code is sre.BRANCH):
            return True
        if any(_nested(child, inside=inside or repeat) for child in _children(argument)):
            return True
    return False


def _repeats(pattern: Any, count: int) -> int:
    """Count the unbounded repeats: each one adds a power to the time."""
    for code, argument in pattern:
        if code in _REPEATS and argument[1] is sre.MAXREPEAT:
            count += 1
        for child in _children(argument):
            count = _repeats(child, count)
    return count
