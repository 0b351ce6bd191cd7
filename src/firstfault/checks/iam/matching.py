"""Wildcards, policy variables and ARNs, as IAM compares them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

__all__ = ["arn_matches", "expand", "glob_matches", "resource_matches"]

_VARIABLE = re.compile(r"\$\{([^},]+)(?:,\s*'([^']*)')?\}")
_LITERALS = {"*": "\x00", "?": "\x01", "$": "$"}
_ARN_PARTS = 6


@lru_cache(maxsize=4096)
def _compiled(pattern: str, *, ignore_case: bool) -> re.Pattern[str]:
    parts = [".*" if char == "*" else "." if char == "?" else re.escape(char) for char in re.sub(r"\*+", "*", pattern)]
    # ${*} and ${?} mean the characters themselves.
    text = "".join(parts).replace(re.escape("\x00"), r"\*").replace(re.escape("\x01"), r"\?")
    return re.compile(text, re.IGNORECASE | re.DOTALL if ignore_case else re.DOTALL)


def glob_matches(pattern: str, text: str, *, ignore_case: bool = False) -> bool:
    """Match `*` (any characters) and `?` (one character) over the whole text."""
    return _compiled(pattern, ignore_case=ignore_case).fullmatch(text) is not None


def arn_matches(pattern: str, text: str) -> bool:
    """Match as ArnLike does: each of the six parts on its own, so that no wildcard crosses a colon before the sixth."""
    wanted, given = pattern.split(":", _ARN_PARTS - 1), text.split(":", _ARN_PARTS - 1)
    if len(wanted) != _ARN_PARTS or len(given) != _ARN_PARTS:
        return pattern in {text, "*"}
    return all(glob_matches(left, right) for left, right in zip(wanted, given, strict=True))


def resource_matches(pattern: str, arn: str) -> bool:
    """Match a Resource element: unlike in ArnLike, a wildcard may reach beyond a colon."""
    return glob_matches(pattern, arn)


def expand(text: str, context: Mapping[str, list[str]]) -> str | None:
    """Replace policy variables (`${aws:PrincipalTag/team}`, `${aws:username, 'nobody'}`, `${*}`).

    Returns:
        The text, or None when a variable has no value and no default: then the element matches nothing.
    """
    missing = False

    def replace(match: re.Match[str]) -> str:
        nonlocal missing
        name, default = match[1].strip(), match[2]
        if name in _LITERALS:
            return _LITERALS[name]
        values = context.get(name.lower(), [])
        if len(values) == 1:
            return values[0]
        missing = missing or default is None
        return default or ""

    result = _VARIABLE.sub(replace, text)
    return None if missing else result
