"""Parses HCL expressions by precedence climbing, and templates into parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from firstfault.checks.terraform.nodes import (
    Binary,
    Call,
    Conditional,
    ForExpr,
    GetAttr,
    Index,
    Literal,
    Node,
    ObjectExpr,
    ObjectItem,
    Root,
    Splat,
    Template,
    TupleExpr,
    Unary,
)
from firstfault.checks.terraform.scanner import HclSyntaxError, Token, tokenize
from firstfault.checks.terraform.templates import build_template, heredoc_inside

__all__ = ["MAX_DEPTH", "ExpressionParser"]

MAX_DEPTH = 70
_PRECEDENCE = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, ">": 4, "<=": 4, ">=": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6,
}  # fmt: skip
_CONSTANTS = {"true": True, "false": False, "null": None}
_START = Token("newline", "", 0, 0)


class ExpressionParser:
    """A parser over a stream of tokens.

    Attributes:
        text: The whole file.
        token: The token to read next.
        previous_end: Offset behind the token read last.
    """

    def __init__(self, text: str, tokens: Iterator[Token], line: Callable[[int], int]) -> None:
        self.text = text
        self.line = line
        self.token = _START
        self.previous_end = 0
        self._tokens = tokens
        self._depth = 0
        # Inside brackets a newline means nothing; one counter instead of a mode per bracket.
        self._brackets = 0

    def start(self) -> None:
        """Read the first token."""
        self.token = next(self._tokens)

    def advance(self) -> None:
        """Go to the next token, over newlines inside brackets."""
        self.previous_end = self.token.end
        self.token = next(self._tokens)
        while self._brackets and self.token.kind == "newline":
            self.token = next(self._tokens)

    def at_op(self, text: str) -> bool:
        """Tell whether the next token is this operator or bracket."""
        return self.token.kind == "op" and self.token.text == text

    def at_name(self, text: str) -> bool:
        """Tell whether the next token is this word."""
        return self.token.kind == "name" and self.token.text == text

    def expect(self, kind: str, what: str) -> Token:
        """Read a token of a kind; `what` names it in the message of the error."""
        token = self.token
        if token.kind != kind:
            raise HclSyntaxError(f"expected {what} here", token.start)
        self.advance()
        return token

    def expect_op(self, text: str) -> None:
        """Read this operator or bracket."""
        if not self.at_op(text):
            raise HclSyntaxError(f"expected {text} here", self.token.start)
        self.advance()

    def skip_newlines(self) -> None:
        """Go over newlines."""
        while self.token.kind == "newline":
            self.advance()

    def expression(self) -> Node:
        """Read one expression.

        Raises:
            HclSyntaxError: There is none here.
        """
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise HclSyntaxError(f"expressions nested more than {MAX_DEPTH} levels deep", self.token.start)
        condition = self._binary(1)
        if self.at_op("?"):
            line = condition.line
            self.advance()
            then = self.expression()
            self.skip_newlines()
            self.expect_op(":")
            self.skip_newlines()
            condition = Conditional(line=line, condition=condition, then=then, otherwise=self.expression())
        self._depth -= 1
        return condition

    def _binary(self, least: int) -> Node:
        left = self._unary()
        while self.token.kind == "op" and (precedence := _PRECEDENCE.get(self.token.text, 0)) >= least:
            operator = self.token.text
            self.advance()
            right = self._binary(precedence + 1)
            left = Binary(line=left.line, operator=operator, left=left, right=right)
        return left

    def _unary(self) -> Node:
        operators: list[tuple[str, int]] = []
        while self.at_op("!") or self.at_op("-"):
            operators.append((self.token.text, self.line(self.token.start)))
            self.advance()
        node = self._postfix(self._primary())
        for operator, line in reversed(operators):
            node = Unary(line=line, operator=operator, operand=node)
        return node

    def _postfix(self, node: Node) -> Node:
        while self.token.kind == "op":
            if self.token.text == ".":
                self.advance()
                node = self._attribute_step(node)
            elif self.token.text == "[":
                node = self._index_step(node)
            else:
                break
        return node

    def _attribute_step(self, node: Node) -> Node:
        token = self.token
        if self.at_op("*"):
            self.advance()
            steps: list[str | Node] = []
            while self.at_op("."):
                self.advance()
                steps.append(self.expect("name", "an attribute's name").text)
            return Splat(line=node.line, target=node, steps=steps)
        if token.kind == "number":
            # Legacy index: a.0.b, which the scanner may have read as the number 0 or as 0.1.
            self.advance()
            for digits in token.text.split("."):
                node = Index(line=node.line, target=node, key=Literal(line=node.line, value=int(digits)))
            return node
        name = self.expect("name", "an attribute's name").text
        return GetAttr(line=node.line, target=node, name=name)

    def _index_step(self, node: Node) -> Node:
        self._open()
        if self.at_op("*"):
            self.advance()
            self._close("]")
            steps: list[str | Node] = []
            while self.at_op(".") or self.at_op("["):
                if self.at_op("."):
                    self.advance()
                    steps.append(self.expect("name", "an attribute's name").text)
                else:
                    self._open()
                    steps.append(self.expression())
                    self._close("]")
            return Splat(line=node.line, target=node, steps=steps)
        key = self.expression()
        self._close("]")
        return Index(line=node.line, target=node, key=key)

    def _open(self) -> None:
        self._brackets += 1
        self.advance()

    def _close(self, bracket: str) -> None:
        if not self.at_op(bracket):
            raise HclSyntaxError(f"expected {bracket} here", self.token.start)
        self._brackets -= 1
        self.advance()

    def _primary(self) -> Node:
        token = self.token
        line = self.line(token.start)
        if token.kind == "string":
            self.advance()
            return Literal(line=line, value=token.text)
        if token.kind == "number":
            self.advance()
            number = float(token.text)
            return Literal(line=line, value=int(number) if number.is_integer() and "." not in token.text else number)
        if token.kind in {"template", "heredoc"}:
            self.advance()
            return self._template(token, line)
        if token.kind == "name":
            self.advance()
            return self._named(token, line)
        if token.kind == "op" and token.text in "([{":
            return self._bracketed(token.text, line)
        raise HclSyntaxError("expected a value here", token.start)

    def _named(self, token: Token, line: int) -> Node:
        if self.at_op("("):
            return self._call(token.text, line)
        if token.text in _CONSTANTS:
            return Literal(line=line, value=_CONSTANTS[token.text])
        return Root(line=line, name=token.text)

    def _call(self, name: str, line: int) -> Node:
        self._open()
        arguments: list[Node] = []
        expand = False
        while not self.at_op(")"):
            arguments.append(self.expression())
            if self.at_op("..."):
                self.advance()
                expand = True
            if not self.at_op(","):
                break
            self.advance()
        self._close(")")
        return Call(line=line, name=name, arguments=arguments, expand=expand)

    def _bracketed(self, bracket: str, line: int) -> Node:
        if bracket == "(":
            self._open()
            node = self.expression()
            self._close(")")
            return node
        if bracket == "[":
            self._open()
            if self.at_name("for"):
                return self._for(line, "]")
            items: list[Node] = []
            while not self.at_op("]"):
                items.append(self.expression())
                if not self.at_op(","):
                    break
                self.advance()
            end_line = self.line(self.token.start)
            self._close("]")
            return TupleExpr(line=line, items=items, end_line=end_line)
        return self._object(line)

    def _object(self, line: int) -> Node:
        # Items of an object are separated by newlines as well as commas, so here newlines count.
        opened = self.token.start
        outer, self._brackets = self._brackets, 0
        self.advance()
        self.skip_newlines()
        if self.at_name("for"):
            self._brackets = 1
            return self._for(line, "}", outer)
        items: list[ObjectItem] = []
        while not self.at_op("}"):
            if self.token.kind == "end":
                raise HclSyntaxError("this { is not closed", opened)
            item_line = self.line(self.token.start)
            key = self._object_key()
            if not (self.at_op("=") or self.at_op(":")):
                raise HclSyntaxError("expected = or : behind this key", self.token.start)
            self.advance()
            self.skip_newlines()
            items.append(ObjectItem(key, self.expression(), item_line))
            if self.at_op(","):
                self.advance()
            elif self.token.kind != "newline" and not self.at_op("}"):
                raise HclSyntaxError("expected a comma, a new line or } here", self.token.start)
            self.skip_newlines()
        end_line = self.line(self.token.start)
        self._brackets = outer
        self.advance()
        return ObjectExpr(line=line, items=items, end_line=end_line)

    def _object_key(self) -> Node:
        token = self.token
        if token.kind == "name":
            line = self.line(token.start)
            self.advance()
            if self.at_op("=") or self.at_op(":"):
                return Literal(line=line, value=token.text)
            return self._postfix(self._named(token, line))
        return self.expression()

    def _for(self, line: int, closing: str, outer: int | None = None) -> Node:
        self.advance()
        key, value = "", self.expect("name", "a variable's name").text
        if self.at_op(","):
            self.advance()
            key, value = value, self.expect("name", "a variable's name").text
        if not self.at_name("in"):
            raise HclSyntaxError("expected in here", self.token.start)
        self.advance()
        collection = self.expression()
        self.expect_op(":")
        key_expr: Node | None = None
        value_expr = self.expression()
        group = False
        if self.at_op("=>"):
            self.advance()
            key_expr, value_expr = value_expr, self.expression()
            if self.at_op("..."):
                self.advance()
                group = True
        condition = None
        if self.at_name("if"):
            self.advance()
            condition = self.expression()
        if not self.at_op(closing):
            raise HclSyntaxError(f"expected {closing} here", self.token.start)
        self._brackets = self._brackets - 1 if outer is None else outer
        self.advance()
        return ForExpr(
            line=line, key=key, value=value, collection=collection, key_expr=key_expr, value_expr=value_expr,
            condition=condition, group=group,
        )  # fmt: skip

    def _template(self, token: Token, line: int) -> Node:
        if token.kind == "template":
            return build_template(self.text, token.start + 1, token.end - 1, line, quoted=True, parse=self.inside)
        start, end, indented = heredoc_inside(self.text, token)
        node = build_template(self.text, start, end, line, quoted=False, parse=self.inside, indented=indented)
        return node if isinstance(node, (Template, Literal)) else Template(line=line, parts=[node])

    def inside(self, start: int, end: int) -> Node:
        """Parse the expression between two offsets of the file."""
        return self._parse_inside(start, end)

    def _parse_inside(self, start: int, end: int) -> Node:
        inner = ExpressionParser(self.text, tokenize(self.text, start, end), self.line)
        inner._depth = self._depth + 1
        inner._brackets = 1
        inner.start()
        inner.skip_newlines()
        node = inner.expression()
        if inner.token.kind != "end":
            raise HclSyntaxError("unexpected text behind this expression", inner.token.start)
        return node
