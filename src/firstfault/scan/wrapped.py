"""Messages of an excerpt that stand on several lines, each as one line (characters and cut lines: `pastes`).

A terminal, a chat or a YAML emitter breaks a long message over several lines, and YAML doubles an apostrophe within
single quotes. Patterns look at one line, so that "didn''t match Pod''s node affinity" or a taint whose name stands on
the next line would be missed. What is joined here is looked at in addition, never instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.model import TextLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["whole_messages"]

# A message that was broken is longer than this in its first part, and goes on for a few lines.
LONG = 60
MOST_PARTS = 6
MOST_CHARS = 1_500
_DOUBLED = re.compile(r"(?:(?<=\w)''(?=\w))|(?<= )''(?=\w)|(?<=\w)''(?=[ .,)]|$)")
# Value of a YAML key that does not end on its line; a plain line that stops in the middle of a sentence.
_OPEN_VALUE = re.compile(r"^\s*(?:- )?[\w.-]+: (?:'[^']|\"[^\"]|[>|][-+]?$)")
_CUT = re.compile(r"(?:[\w/=({-]|[,:]) ?$")
_CODE = re.compile(r"line \d+, in |\) at 0x|\+ 0x[0-9a-f]+ |\S {3,}\S+ {3,}\S|[{};]\s*$|^\s*#")
# What goes on: no prefix, no key, no list, no table, no code.
_GOES_ON = re.compile(r"^\s*(?:[a-z({\[\"']|\d+ [A-Za-z(])")
_OWN_LINE = re.compile(
    r"^\s*(?:File |at |frame |return\b|raise |self\.|def |import |from |with |for |if "
    r"|[\w.\[\]]+ ?[-+*]?= |[\w./-]+:(?: |$)|[\w./-]+=\S"
    r'|\[[^\]]*\d[^\]]*\]|\{\\?"'
    r"|[\w.-]+\(|[|+*>$#%@-]|\d{1,4}[-/:]\d|\S+ \d\d:\d\d|[\w.-]+:\d+:\d+ |\[?[\w-]+\]?:? ?(?:error|warning|info)\b)"
)


def whole_messages(text: str) -> Iterator[TextLine]:
    """Yield the messages of an excerpt that stand on several lines, or with doubled apostrophes, as one line each.

    Args:
        text: The whole excerpt.

    Yields:
        Lines that are not in the text as they are, at the place where their message begins.
    """
    lines = text.split("\n")
    offset = 0
    starts = []
    for line in lines:
        starts.append(offset)
        offset += len(line.encode("utf-8", "replace")) + 1
    at = 0
    while at < len(lines):
        parts = _parts(lines, at)
        joined = _single_quoted(" ".join(part.strip() for part in parts))
        if len(parts) > 1 or joined != lines[at].strip():
            yield TextLine(text=joined, line=at + 1, offset=starts[at])
        at += len(parts)


def _single_quoted(text: str) -> str:
    """Undo what YAML does to an apostrophe within single quotes."""
    return _DOUBLED.sub("'", text) if "''" in text else text.strip()


def _parts(lines: Sequence[str], at: int) -> Sequence[str]:
    """Return the lines of one message, the first of which is `lines[at]`."""
    first = lines[at].rstrip("\r")
    in_yaml = bool(_OPEN_VALUE.match(first)) and not first.rstrip().endswith(("'", '"'))
    indent = len(first) - len(first.lstrip())
    end = at + 1
    size = len(first)
    while end < len(lines) and end - at < MOST_PARTS and size < MOST_CHARS:
        last, following = lines[end - 1].rstrip("\r"), lines[end].rstrip("\r")
        if not following.strip() or _OWN_LINE.match(following) or _CODE.search(following):
            break
        if in_yaml:
            if len(following) - len(following.lstrip()) <= indent:
                break
        elif not _is_cut(last, following):
            break
        size += len(following)
        end += 1
        if in_yaml and following.rstrip().endswith(("'", '"')):
            break
    return lines[at:end]


def _is_cut(last: str, following: str) -> bool:
    """Say whether a line stops in the middle of a message that the next one goes on with."""
    if len(last.strip()) < LONG or not _CUT.search(last) or _CODE.search(last):
        return False
    return bool(_GOES_ON.match(following)) and last.split(maxsplit=1)[0] != following.split(maxsplit=1)[0]
