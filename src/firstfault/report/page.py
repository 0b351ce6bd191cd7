"""A page of text: prose fills its width, and on a terminal nothing is wider than it but what must stay in one piece."""

from __future__ import annotations

from textwrap import wrap

__all__ = ["WIDTH", "Page"]

WIDTH = 100


class Page:
    """Breaks lines for a terminal, or for a file or a pipe, where rows stay one line each for `grep`.

    Args:
        width: Columns of the terminal; None where there is none.
        prose: Columns that prose fills then.
    """

    def __init__(self, width: int | None = None, *, prose: int = WIDTH) -> None:
        self._width = width
        self._prose = width or prose

    def prose(self, text: str, bullet: str = "") -> list[str]:
        """Break sentences, under a bullet or an indent. Paths and ids stay whole, so that they can be copied."""
        return _wrap(text, self._prose, bullet, " " * len(bullet)) or [bullet]

    def row(self, text: str, indent: str = "") -> list[str]:
        """Give one row, such as a line of a log: whole, and on a terminal that is too narrow with a hanging indent."""
        if self._width is None or len(indent) + len(text) <= self._width:
            return [indent + text]
        return _wrap(text, self._width, indent, f"{indent}  ")


def _wrap(text: str, width: int, first: str, others: str) -> list[str]:
    return wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_on_hyphens=False,
        break_long_words=False,
        expand_tabs=False,
        replace_whitespace=False,
    )
