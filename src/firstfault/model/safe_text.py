"""Makes foreign text safe to print: on a terminal, in a CI log, in a web page's source.

Log lines are data. They may hold escape sequences that recolour or retitle a terminal, controls that reorder what the
eye reads, or commands that a CI runner obeys when they stand in its log.
"""

from __future__ import annotations

import re

__all__ = ["safe_text", "strip_ansi", "without_commands"]

# CSI, OSC (ended by BEL or ST), other string sequences (DCS, SOS, PM, APC), and two-byte escapes; 8-bit forms too.
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
# C0 without tab and line feed, DEL, C1, BiDi controls and isolates, line and paragraph separators, zero-width
# characters, byte order mark, tags, and lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
# GitHub obeys `::name …::` at the beginning of a line; GitHub (older form) and Azure obey `##[` and `##vso[` anywhere.
_WORKFLOW_COMMAND = re.compile(r"^([ \t]*):(?=:[A-Za-z][\w-]*(?:[ \t][^\n]*?)?::)", re.MULTILINE)
_WORKFLOW_MARK = re.compile(r"##(?=(?:[A-Za-z]+)?\[)")


def strip_ansi(text: str) -> str:
    """Return the text without ANSI escape sequences (colours, cursor moves, titles, links)."""
    return _ANSI.sub("", text) if "\x1b" in text or not text.isascii() else text


def safe_text(text: str) -> str:
    r"""Return the text so that printing it changes nothing but the page it is printed on.

    Escape sequences are taken out, other control characters are shown as `\x07` or `\u202e`, workflow commands lose
    their magic by a space. Tabs and line feeds stay. Doing it twice changes nothing more.
    """
    text = strip_ansi(text)
    if not text.isprintable():
        text = _UNSAFE.sub(_show, text)
    return without_commands(text)


def without_commands(text: str) -> str:
    """Return the text without workflow commands. For whole pages: wrapping can bring one to the beginning of a line."""
    if "::" in text:
        text = _WORKFLOW_COMMAND.sub(r"\1: ", text)
    if "##" in text:
        text = _WORKFLOW_MARK.sub("# #", text)
    return text


def _show(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
