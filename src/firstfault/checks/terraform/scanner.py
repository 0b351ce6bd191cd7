"""Tokens of HCL, and the scanning of strings, heredocs and templates whose insides are expressions again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

__all__ = ["HclSyntaxError", "Token", "template_pieces", "tokenize"]

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r]+)
  | (?P<newline>\n)
  | (?P<comment>\#[^\n]*|//[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<heredoc><<-?[A-Za-z_][\w-]*\r?\n)
  | (?P<string>")
  | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
  | (?P<name>[A-Za-z_](?:[\w-]*\w|_)*-?(?:::[A-Za-z_][\w-]*)*)
  | (?P<op>\.\.\.|=>|==|!=|<=|>=|&&|\|\||[-+*/%!<>=?:.,(){}\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_STRING = re.compile(r'"((?:[^"\\$%\n]|\$(?!\{)|%(?!\{))*)"')
_STRING_STOP = re.compile(r'\\.|\$\$\{|%%\{|\$\{|%\{|"|\n', re.DOTALL)
_BRACES_STOP = re.compile(r'[{}"#\n]|//|/\*|<<-?[A-Za-z_][\w-]*\r?\n')
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}
MAX_NESTING = 60


class HclSyntaxError(Exception):
    """Raised inside the reader only; becomes an `HclProblem`."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset


class Token(msgspec.Struct, frozen=True, eq=False):
    """One token.

    Attributes:
        kind: newline · name · number · op · string (no interpolation) · template · heredoc · end.
        text: The token's text; for strings the decoded value, for templates the raw inside.
        start: Offset of its first character.
        end: Offset behind its last character.
    """

    kind: str
    text: str
    start: int
    end: int


def tokenize(text: str, start: int, end: int) -> Iterator[Token]:
    """Yield the tokens of `text[start:end]`, closed by one of kind "end".

    Raises:
        HclSyntaxError: A character that starts no token, or a string or heredoc without an end.
    """
    position = start
    while position < end:
        match = _TOKEN.match(text, position, end)
        if match is None:
            raise HclSyntaxError(f"unexpected character {text[position]!r}", position)
        kind = match.lastgroup
        assert kind is not None
        if kind == "string":
            plain = _PLAIN_STRING.match(text, position, end)
            if plain:
                yield Token("string", plain[1], position, plain.end())
                position = plain.end()
            else:
                close = _string_end(text, position + 1, end, 0)
                yield Token("template", text[position + 1 : close - 1], position, close)
                position = close
            continue
        if kind == "heredoc":
            close = _heredoc_end(text, position, match, end)
            yield Token("heredoc", match[0].strip(), position, close)
            position = close
            continue
        if kind == "newline" or kind not in {"space", "comment"}:
            yield Token(kind, match[0], position, match.end())
        position = match.end()
    yield Token("end", "", end, end)


def _string_end(text: str, position: int, end: int, depth: int) -> int:
    """Return the offset behind the closing quote of the string whose inside starts at `position`."""
    opened = position - 1
    while True:
        match = _STRING_STOP.search(text, position, end)
        if match is None or match[0] == "\n":
            raise HclSyntaxError("this string is not closed on its line", opened)
        position = match.end()
        if match[0] == '"':
            return position
        if match[0] in {"${", "%{"}:
            position = _braces_end(text, position, end, depth + 1)


def _braces_end(text: str, position: int, end: int, depth: int) -> int:
    """Return the offset behind the brace that closes the interpolation whose inside starts at `position`."""
    opened = position - 2
    if depth > MAX_NESTING:
        raise HclSyntaxError(f"templates nested more than {MAX_NESTING} levels deep", opened)
    level = 1
    while level:
        match = _BRACES_STOP.search(text, position, end)
        if match is None:
            raise HclSyntaxError("this interpolation is not closed", opened)
        if match[0] in "{}":
            level += 1 if match[0] == "{" else -1
            position = match.end()
        else:
            position = _behind(text, match, end, depth)
    return position


def _behind(text: str, match: re.Match[str], end: int, depth: int) -> int:
    """Return the offset behind the string, comment or heredoc that starts at a match of `_BRACES_STOP`."""
    stop, position = match[0], match.end()
    if stop == '"':
        return _string_end(text, position, end, depth)
    if stop.startswith("<<"):
        return _heredoc_end(text, match.start(), match, end)
    if stop == "\n":
        return position
    close = text.find("*/" if stop == "/*" else "\n", position, end)
    return end if close < 0 else close + (2 if stop == "/*" else 0)


def _heredoc_end(text: str, start: int, opening: re.Match[str], end: int) -> int:
    """Return the offset behind the closing marker of a heredoc (before the newline that follows it)."""
    marker = opening[0].strip().lstrip("<").lstrip("-")
    close = re.compile(rf"^[ \t]*{re.escape(marker)}[ \t]*\r?$", re.MULTILINE).search(text, opening.end(), end)
    if close is None:
        raise HclSyntaxError(f"this heredoc is not closed by a line {marker}", start)
    return close.end()


def template_pieces(text: str, start: int, end: int, *, quoted: bool) -> Iterator[tuple[str, str, int, int]]:
    """Yield the pieces of a template: ("text", decoded, start, end), or ("${" or "%{", "", start, end) of the inside.

    Args:
        text: The whole file.
        start: Offset of the template's inside.
        end: Offset behind it.
        quoted: Backslash escapes hold (quoted strings); heredocs have none.
    """
    position = start
    plain: list[str] = []
    plain_start = start
    while position < end:
        match = _STRING_STOP.search(text, position, end)
        if match is None:
            break
        plain.append(text[position : match.start()])
        stop = match[0]
        position = match.end()
        if stop in {"${", "%{"}:
            if any(plain):
                yield "text", "".join(plain), plain_start, match.start()
            close = _braces_end(text, position, end, 1)
            yield stop, "", position, close - 1
            plain, position, plain_start = [], close, close
        elif stop in {"$${", "%%{"}:
            plain.append(stop[1:])
        elif stop.startswith("\\") and quoted:
            decoded, position = _escape(text, match.start(), end)
            plain.append(decoded)
        else:
            plain.append(stop)
    plain.append(text[position:end])
    if any(plain):
        yield "text", "".join(plain), plain_start, end


def _escape(text: str, start: int, end: int) -> tuple[str, int]:
    letter = text[start + 1]
    if letter in _ESCAPES:
        return _ESCAPES[letter], start + 2
    digits = {"u": 4, "U": 8}.get(letter)
    if digits and start + 2 + digits <= end:
        code = text[start + 2 : start + 2 + digits]
        try:
            return chr(int(code, 16)), start + 2 + digits
        except (ValueError, OverflowError):
            pass
    raise HclSyntaxError(f"\\{letter} is no escape sequence", start)
