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


def heredoc_inside(text: str, token: Token) -> tuple[str, int, int]:
    """Return (text, start, end) of a heredoc's content.

    For the indented form (`<<-`) the content without its common indentation is a text of its own; otherwise it is a
    passage of the file.
    """
    start = text.index("\n", token.start) + 1
    end = text.rfind("\n", token.start, token.end) + 1
    if not token.text.startswith("<<-"):
        return text, start, end
    lines = text[start:end].splitlines(keepends=True)
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    cut = min(indents, default=0)
    content = "".join(line[cut:] if line.strip() else line.lstrip(" \t") for line in lines)
    return content, 0, len(content)


class _Open:
    """A directive whose end has not been seen yet."""

    def __init__(self, kind: str, line: int) -> None:
        self.kind = kind
        self.line = line
        self.condition: Node | None = None
        self.names = ("", "")
        self.then: list[Node] | None = None
        self.parts: list[Node] = []


def build_template(text: str, start: int, end: int, line: int, *, quoted: bool, parse: _Parse) -> Node:
    """Return the node of a template; a lone interpolation is the expression itself, plain text a literal.

    Args:
        text: Text that the offsets count in.
        start: Offset of the inside.
        end: Offset behind it.
        line: Line of the template.
        quoted: Backslash escapes hold.
        parse: Parses the expression between two offsets of `text`.

    Raises:
        HclSyntaxError: An interpolation or a directive is malformed.
    """
    stack = [_Open("", line)]
    trim_next = False
    for kind, plain, first, last in template_pieces(text, start, end, quoted=quoted):
        if kind == "text":
            stack[-1].parts.append(Literal(line=line, value=plain.lstrip() if trim_next else plain))
            trim_next = False
            continue
        inside_start, inside_end = first, last
        if text[inside_start:inside_end].startswith("~"):
            inside_start += 1
            _trim_last(stack[-1].parts)
        trim_next = text[inside_start:inside_end].rstrip().endswith("~")
        if trim_next:
            inside_end = text.rindex("~", inside_start, inside_end)
        if kind == "${":
            stack[-1].parts.append(parse(inside_start, inside_end))
        else:
            _directive(text, inside_start, inside_end, stack, parse)
        if len(stack) > _MAX_OPEN:
            raise HclSyntaxError("template directives nested too deep", first)
    if len(stack) > 1:
        raise HclSyntaxError(f"%{{ {stack[-1].kind} }} is not closed", start)
    return _joined(stack[0].parts, line)


def _trim_last(parts: list[Node]) -> None:
    if parts and isinstance(parts[-1], Literal) and isinstance(parts[-1].value, str):
        parts[-1] = Literal(line=parts[-1].line, value=parts[-1].value.rstrip())


def _joined(parts: list[Node], line: int) -> Node:
    if not parts:
        return Literal(line=line, value="")
    if len(parts) == 1 and not isinstance(parts[0], (TemplateIf, TemplateFor)):
        return parts[0]
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
