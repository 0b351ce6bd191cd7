"""Finds the JSON values in a text: one document, several in a row, among lines of text, cut at either end.

People paste what they have: `kubectl get pod -o json` with the prompt above it, half of a list, a dump of many objects.
Members of a list of objects (`"items": [`) come one by one, so that a large list needs little memory and each object
has a place in the text.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Found", "Places", "iter_json"]

_DECODER = json.JSONDecoder()
# Not every bracket: `[E socket.cpp…]` and `[2024-…]` begin most lines of some logs.
_BEGIN = re.compile(r"^[ \t]*(?=\{\s*[\"}]|\[\s*[{\[\"\]\d-])", re.MULTILINE)
_SPACE = re.compile(r"\s*")
_COMMA = re.compile(r"\s*,?\s*")
# A wrapper whose members are objects of their own, and what may stand before its list.
_LIST = re.compile(
    r'\{\s*(?:"(?:apiVersion|kind|metadata|resultType|status)"\s*:\s*(?:"[^"\n]{0,200}"|\{[^{}]{0,2000}\})\s*,\s*){0,4}'
    r'"(?P<key>items|Items)"\s*:\s*\[(?=\s*\{)'
)
MAX_AFTER_LIST = 64 * 1024
# How many times the length of the text may be spent on values that turn out to be cut or no JSON.
FAILED_PASSES = 8
SEARCH_WINDOW = 256 * 1024


class Found(NamedTuple):
    """A piece of the text: a value with its place, or text that is no JSON (`value` is then None and `text` True).

    Attributes:
        start: Index of the first character.
        end: Index behind the last one.
        value: The decoded value.
        text: Whether the piece is plain text.
        list_key: The key of the list that the value is a member of; "" if it stands alone.
    """

    start: int
    end: int
    value: Any
    text: bool = False
    list_key: str = ""


def iter_json(text: str) -> Iterator[Found]:
    """Yield the pieces of a text in order; together they cover all of it but the wrappers of lists.

    Args:
        text: Anything. The work is proportional to its length.
    """
    return _Scan(text).pieces()


class _Scan:
    """One walk over a text. Attempts that fail are paid from a budget, so that no text can make the walk quadratic."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._budget = FAILED_PASSES * len(text) + MAX_AFTER_LIST

    def pieces(self) -> Iterator[Found]:
        position = plain_from = 0
        while self._budget > 0 and (match := _BEGIN.search(self._text, position)) is not None:
            begin = match.end()
            end = begin
            for found in self._values_at(begin):
                if end == begin:
                    yield from self._plain(plain_from, begin)
                if not found.text:
                    yield found
                end = plain_from = found.end
            position = self._line_end(begin) if end == begin else end
        yield from self._plain(plain_from, len(self._text))

    def _plain(self, start: int, end: int) -> Iterator[Found]:
        if self._text[start:end].strip():
            yield Found(start, end, None, text=True)

    def _values_at(self, begin: int) -> Iterator[Found]:
        """Yield the value that begins here, or the members of the list that does; nothing if there is neither."""
        wrapper = _LIST.match(self._text, begin)
        if wrapper is not None:
            yield from self._members(begin, wrapper.end(), wrapper["key"])
        elif (decoded := self._decode(begin)) is not None:
            yield Found(begin, decoded[1], decoded[0])

    def _members(self, begin: int, position: int, key: str) -> Iterator[Found]:
        """Yield the members of a list, then an empty piece that ends behind what was understood."""
        text = self._text
        while text.startswith("{", position := _skip(_SPACE, text, position)):
            decoded = self._decode(position)
            if decoded is None:
                break
            yield Found(position, decoded[1], decoded[0], list_key=key)
            position = _skip(_COMMA, text, decoded[1])
        if text.startswith("]", position):
            # What follows the list in its wrapper (`"kind": "List"`) is an object again once it gets a brace.
            position = _skip(_COMMA, text, position + 1)
            try:
                _, length = _DECODER.raw_decode("{" + text[position : position + MAX_AFTER_LIST])
            except (ValueError, RecursionError):
                length = 1
            position += length - 1
        yield Found(begin, position, None, text=True)

    def _decode(self, start: int) -> tuple[Any, int] | None:
        try:
            return _DECODER.raw_decode(self._text, start)
        except (ValueError, RecursionError) as error:  # ValueError itself: a number with thousands of digits
            self._budget -= max(error.pos - start, 1) if isinstance(error, json.JSONDecodeError) else MAX_AFTER_LIST
        return None

    def _line_end(self, start: int) -> int:
        end = self._text.find("\n", start)
        return len(self._text) if end < 0 else end + 1


def _skip(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return position if match is None else match.end()


class Places:
    """Turns positions in a decoded text into line numbers and byte offsets; costs the way from the last position.

    Attributes:
        records: Log records that were read out of the documents so far: readers number them over all documents.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.records = 0
        self._at = 0
        self._line = 1
        self._offset = 0

    def place(self, index: int) -> tuple[int, int]:
        """Return the 1-based line and the byte offset of the line that a character is on."""
        start = self.text.rfind("\n", 0, index) + 1
        between = self.text[min(start, self._at) : max(start, self._at)]
        sign = 1 if start > self._at else -1
        self._line += sign * between.count("\n")
        self._offset += sign * (len(between) if between.isascii() else len(between.encode("utf-8", "replace")))
        self._at = start
        return self._line, self._offset

    def find(self, needle: str, start: int, end: int) -> tuple[int, int]:
        """Return the place of a string within a piece of the text; that of the piece if it is not there.

        Only the beginning of a large piece is searched: every fact of an object may ask.
        """
        index = self.text.find(needle, start, min(end, start + SEARCH_WINDOW)) if needle else -1
        return self.place(start if index < 0 else index)
