"""Builds template nodes: interpolations, `%{ if }` and `%{ for }` directives, trim markers, indented heredocs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

from firstfault.checks.terraform.nodes import Literal, Node, Template, TemplateFor, TemplateIf
from firstfault.checks.terraform.scanner import HclSyntaxError, Token, template_pieces

__all__ = ["build_template", "heredoc_inside"]

_DIRECTIVE = re.compile(r"\s*(if|else|endif|for|endfor)\b")
_FOR = re.compile(r"\s*for\s+(\w+)\s*(?:,\s*(\w+)\s*)?in\s")
_Parse = Callable[[int, int], Node]
_MAX_OPEN = 40


class _Piece:
    """A piece of a template: a literal, or the inside of an interpolation or directive."""

    def __init__(self, kind: str, text: str, start: int, end: int) -> None:
        self.kind = kind
        self.text = text
        self.start = start
        self.end = end


def heredoc_inside(text: str, token: Token) -> tuple[int, int, bool]:
    """Return (start, end, indented) of a heredoc's content."""
    start = text.index("\n", token.start) + 1
    end = text.rfind("\n", token.start, token.end) + 1
    return start, max(end, start), token.text.startswith("<<-")


def _pieces(text: str, start: int, end: int, *, quoted: bool, indented: bool) -> list[_Piece]:
    """Return the pieces of a template, trimmed and unindented.

    Literals of heredocs are cut at line ends, because Terraform does so before it trims: `~` takes blanks up to the end
    of the line, not those that the next line begins with.
    """
    pieces: list[_Piece] = []
    for kind, plain, first, last in template_pieces(text, start, end, quoted=quoted):
        if kind == "text":
            rows = [plain] if quoted else plain.splitlines(keepends=True)
            pieces.extend(_Piece("text", row, first, last) for row in rows)
        else:
            pieces.append(_Piece(kind, "", first, last))
    for index, piece in enumerate(pieces):
        if piece.kind != "text":
            _trim(text, pieces, index)
    if indented:
        _unindent(pieces)
    return pieces


def _trim(text: str, pieces: list[_Piece], index: int) -> None:
    piece = pieces[index]
    if text[piece.start : piece.end].startswith("~"):
        piece.start += 1
        if index and pieces[index - 1].kind == "text":
            pieces[index - 1].text = pieces[index - 1].text.rstrip()
    inside = text[piece.start : piece.end].rstrip()
    if inside.endswith("~"):
        piece.end = piece.start + len(inside) - 1
        if index + 1 < len(pieces) and pieces[index + 1].kind == "text":
            pieces[index + 1].text = pieces[index + 1].text.lstrip()


def _unindent(pieces: list[_Piece]) -> None:
    """Take the common indentation off the literals that begin a line, as Terraform counts them."""
    least: int | None = None
    beginning: list[_Piece] = []
    at_line_start = True
    for piece in pieces:
        blank = piece.kind == "text" and not piece.text.strip() and piece.text.endswith("\n")
        if at_line_start and not blank:
            spaces = len(piece.text) - len(piece.text.lstrip())
            least = spaces if least is None else min(least, spaces)
            if piece.kind == "text":
                beginning.append(piece)
        if piece.kind == "text":
            at_line_start = piece.text.endswith("\n")
    for piece in beginning:
        piece.text = piece.text[least or 0 :]


class _Open:
    """A directive whose end has not been seen yet."""

    def __init__(self, kind: str, line: int) -> None:
        self.kind = kind
        self.line = line
        self.condition: Node | None = None
        self.names = ("", "")
        self.then: list[Node] | None = None
        self.parts: list[Node] = []


def build_template(
    text: str, start: int, end: int, line: int, *, quoted: bool, parse: _Parse, indented: bool = False
) -> Node:
    """Return the node of a template; a lone interpolation is the expression itself, plain text a literal.

    Args:
        text: Text that the offsets count in.
        start: Offset of the inside.
        end: Offset behind it.
        line: Line of the template.
        quoted: Backslash escapes hold.
        parse: Parses the expression between two offsets of `text`.
        indented: The common indentation is taken off (`<<-`).

    Raises:
        HclSyntaxError: An interpolation or a directive is malformed.
    """
    stack = [_Open("", line)]
    for piece in _pieces(text, start, end, quoted=quoted, indented=indented):
        if piece.kind == "text":
            if piece.text:
                stack[-1].parts.append(Literal(line=line, value=piece.text))
        elif piece.kind == "${":
            stack[-1].parts.append(parse(piece.start, piece.end))
        else:
            _directive(text, piece.start, piece.end, stack, parse)
        if len(stack) > _MAX_OPEN:
            raise HclSyntaxError("template directives nested too deep", piece.start)
    if len(stack) > 1:
        raise HclSyntaxError(f"%{{ {stack[-1].kind} }} is not closed", start)
    return _joined(stack[0].parts, line)


def _joined(parts: list[Node], line: int) -> Node:
    if not parts:
        return Literal(line=line, value="")
    if len(parts) == 1 and not isinstance(parts[0], (TemplateIf, TemplateFor)):
        return parts[0]
    literals = [part for part in parts if isinstance(part, Literal) and isinstance(part.value, str)]
    if len(literals) == len(parts):
        return Literal(line=line, value="".join(part.value for part in literals))
    return Template(line=line, parts=parts)


def _directive(text: str, start: int, end: int, stack: list[_Open], parse: _Parse) -> None:
    match = _DIRECTIVE.match(text, start, end)
    if match is None:
        raise HclSyntaxError("expected if, else, endif, for or endfor", start)
    word, top = match[1], stack[-1]
    if word == "if":
        opened = _Open("if", top.line)
        opened.condition = parse(match.end(), end)
        stack.append(opened)
    elif word == "for":
        loop = _FOR.match(text, start, end)
        if loop is None:
            raise HclSyntaxError("expected for NAME in COLLECTION", start)
        opened = _Open("for", top.line)
        opened.names = (loop[1], loop[2]) if loop[2] else ("", loop[1])
        opened.condition = parse(loop.end(), end)
        stack.append(opened)
    elif word == "else" and top.kind == "if" and top.then is None:
        top.then, top.parts = top.parts, []
    elif word == "endif" and top.kind == "if":
        stack.pop()
        then, otherwise = (top.parts, []) if top.then is None else (top.then, top.parts)
        stack[-1].parts.append(
            TemplateIf(
                line=top.line,
                condition=cast("Node", top.condition),
                then=Template(line=top.line, parts=then),
                otherwise=Template(line=top.line, parts=otherwise),
            )
        )
    elif word == "endfor" and top.kind == "for":
        stack.pop()
        body = Template(line=top.line, parts=top.parts)
        key, value = top.names
        node = TemplateFor(line=top.line, key=key, value=value, collection=cast("Node", top.condition), body=body)
        stack[-1].parts.append(node)
    else:
        raise HclSyntaxError(f"{word} without its beginning", start)
