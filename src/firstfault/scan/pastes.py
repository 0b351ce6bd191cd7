"""What copying does to a text: no-break spaces, typographic quotes, HTML entities, colours as text, cut lines.

Undone without moving the start of any line, so that line numbers and offsets stay those of the file: what becomes
shorter is filled up with blanks at the end of the line.
"""

from __future__ import annotations

import re

__all__ = ["LONGEST_PASTE", "mend_paste"]

# Nobody copies more than this from a screen or a chat.
LONGEST_PASTE = 64 * 1024
NARROWEST, WIDEST = 60, 320
# A start of a line that tells whether it is one of a kind: digits and letters alike, so much of it.
START = 6
MOSTLY = 0.6

_TYPOGRAPHY = {
    "\u00a0": " ", "\u202f": " ", "\u2007": " ", "\u200b": "",
    "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"',
}  # fmt: skip
_TYPOGRAPHIC = re.compile("[" + "".join(_TYPOGRAPHY) + "]")
_ENTITIES = {b"&lt;": b"<", b"&gt;": b">", b"&amp;": b"&", b"&quot;": b'"', b"&#39;": b"'", b"&nbsp;": b" "}
_ENTITY = re.compile(b"|".join(_ENTITIES))
# Colours whose escape character was lost on the way, or is written out: by rsyslog, `cat -v`, JSON, a web page. A text
# with colours takes them back somewhere; without that, "[5m" may be five minutes.
_COLOURS_END = (b"[0m", b"[39m", b"[m", b"[00m")
_COLOUR = re.compile(
    rb"(?:(?:\x1b|#033|\^\[|\\(?:033|e|x1[bB]|u001[bB])|ESC|\xe2\x90\x9b)\[[\d;]{0,16}[mK]|\[\d{1,3}(?:;\d{1,3}){0,4}m(?!\]))"
)
_GAP = re.compile(r" {2,}|\|")
_DIGITS = re.compile(r"\d+")


def mend_paste(data: bytes) -> bytes:
    """Return the text as it was before it was copied, as far as that can be told; of the same length."""
    if not data.isascii():
        data = b"\n".join(_plain(line) for line in data.split(b"\n"))
    if b"&" in data:
        data = b"\n".join(_without_entities(line) for line in data.split(b"\n"))
    if any(end in data for end in _COLOURS_END):
        data = b"\n".join(_COLOUR.sub(b"", line).ljust(len(line)) for line in data.split(b"\n"))
    return _unwrapped(data)


def _plain(line: bytes) -> bytes:
    if line.isascii():
        return line
    text = line.decode("utf-8", "surrogateescape")
    mended = _TYPOGRAPHIC.sub(lambda found: _TYPOGRAPHY[found[0]], text)
    return line if mended == text else mended.encode("utf-8", "surrogateescape").ljust(len(line))


def _without_entities(line: bytes) -> bytes:
    return _ENTITY.sub(lambda found: _ENTITIES[found[0]], line).ljust(len(line)) if b"&" in line else line


def _unwrapped(data: bytes) -> bytes:
    """Join what a terminal cut: lines of the greatest width of all, each with the line that goes on behind it."""
    lines = data.split(b"\n")
    texts = [line.decode("utf-8", "replace").rstrip("\r") for line in lines]
    cut = _cut_lines(texts)
    if not cut:
        return data
    parts: list[bytes] = []
    joined = 0
    for place, line in enumerate(lines):
        if place in cut:
            parts.append(line.rstrip(b"\r"))
            joined += 1 + len(line) - len(parts[-1])
        else:
            parts.append(line + b" " * joined + b"\n")
            joined = 0
    return b"".join(parts)[: len(data)]


def _cut_lines(texts: list[str]) -> set[int]:
    """Which lines go on in the next one.

    Lines of a table or of a counter are all of one width, too. But what follows them begins as lines do that follow a
    shorter one, while the rest of a line that was cut begins with anything.
    """
    width = max(map(len, texts), default=0)
    full = {place for place, text in enumerate(texts[:-1]) if len(text) == width}
    if not NARROWEST <= width <= WIDEST or len({_DIGITS.sub("0", texts[place]) for place in full}) <= 1:
        return set()  # one line alone is only the longest
    fresh = {_start(text) for place, text in enumerate(texts) if place - 1 not in full}
    cut = {
        place
        for place in full
        if (rest := texts[place + 1])
        and _start(rest) not in fresh
        and len(_columns(texts[place]) & _columns(rest)) <= 1
    }
    return cut if len(cut) >= MOSTLY * len(full) else set()


def _columns(text: str) -> set[int]:
    """Where the columns of a table begin."""
    return {found.end() for found in _GAP.finditer(text)}


def _start(text: str) -> str:
    return "".join("a" if char.isalpha() else "0" if char.isdigit() else char for char in text[:START])
