"""Parses HCL. A syntax error costs the top-level block that holds it, not the file."""

from __future__ import annotations

import re
from bisect import bisect_right

from firstfault.checks.terraform.expressions import ExpressionParser
from firstfault.checks.terraform.nodes import Attribute, Block, Body, HclFile, HclProblem
from firstfault.checks.terraform.scanner import HclSyntaxError, Token, tokenize

__all__ = ["parse_hcl"]

# Where reading resumes after an error: a line that opens a block at the left margin.
_RESUME = re.compile(r'^[A-Za-z_]\w*(?:[ \t]+(?:"[^"\n]*"|[A-Za-z_]\w*))*[ \t]*\{', re.MULTILINE)
_MAX_PROBLEMS = 20


def parse_hcl(text: str, path: str) -> HclFile:
    """Parse one `.tf` or `.tfvars` file; never raises for what it contains."""
    lines = _Lines(text)
    attributes: dict[str, Attribute] = {}
    blocks: list[Block] = []
    problems: list[HclProblem] = []
    start = 0
    while True:
        reader = _BodyReader(text, path, lines, start)
        try:
            reader.top_level()
            return HclFile(path, Body(attributes | reader.attributes, blocks + reader.blocks), problems)
        except HclSyntaxError as error:
            line, column = lines.position(min(error.offset, len(text)))
            problems.append(HclProblem(path, line, column, error.message))
            attributes |= reader.attributes
            blocks += reader.blocks
            # Resume behind the start of the block that failed: the error may point far below it (an unclosed brace).
            resume = _RESUME.search(text, reader.block_start + 1)
            if resume is None or len(problems) >= _MAX_PROBLEMS:
                return HclFile(path, Body(attributes, blocks), problems)
            start = resume.start()


class _Lines:
    """Offsets to lines."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def line(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def position(self, offset: int) -> tuple[int, int]:
        line = self.line(offset)
        return line, offset - self._starts[line - 1] + 1


class _BodyReader(ExpressionParser):
    """Reads bodies: arguments and blocks."""

    def __init__(self, text: str, path: str, lines: _Lines, start: int) -> None:
        super().__init__(text, tokenize(text, start, len(text)), lines.line)
        self._path = path
        self.attributes: dict[str, Attribute] = {}
        self.blocks: list[Block] = []
        self.block_start = start

    def top_level(self) -> None:
        """Read to the end of the text; what was read before an error stays in `attributes` and `blocks`."""
        self.start()
        while True:
            self.skip_newlines()
            if self.token.kind == "end":
                return
            self.block_start = self.token.start
            self._item(self.attributes, self.blocks, 0)

    def _item(self, attributes: dict[str, Attribute], blocks: list[Block], depth: int) -> None:
        name = self.token
        if name.kind == "string":
            # A quoted argument name is legal in tfvars written by JSON-minded people; blocks never start so.
            raise HclSyntaxError("an argument's or block's name is not quoted", name.start)
        self.expect("name", "the name of an argument or block")
        if self.at_op("="):
            self.advance()
            attributes[name.text] = self._attribute(name)
        else:
            blocks.append(self._block(name, depth))

    def _attribute(self, name: Token) -> Attribute:
        start = self.token.start
        expr = self.expression()
        end = self.previous_end
        if self.token.kind not in {"newline", "end"} and not self.at_op("}"):
            raise HclSyntaxError("a new line is missing behind this argument", self.token.start)
        return Attribute(
            name=name.text,
            expr=expr,
            line=self.line(name.start),
            end_line=self.line(max(end - 1, start)),
            source=self.text[start:end],
        )

    def _block(self, name: Token, depth: int) -> Block:
        labels: list[str] = []
        while self.token.kind in {"string", "name", "template"}:
            labels.append(self.token.text)
            self.advance()
        if not self.at_op("{"):
            raise HclSyntaxError("expected = or { here", self.token.start)
        if depth > 50:
            raise HclSyntaxError("blocks nested more than 50 levels deep", name.start)
        self.advance()
        body = Body({}, [])
        single_line = self.token.kind != "newline"
        while True:
            self.skip_newlines()
            if self.token.kind == "end":
                raise HclSyntaxError(f"the block {name.text} that starts here is not closed", name.start)
            if self.at_op("}"):
                break
            if single_line and (body.attributes or body.blocks):
                raise HclSyntaxError("a block on one line holds one argument only", self.token.start)
            self._item(body.attributes, body.blocks, depth + 1)
        end = self.token.start
        self.advance()
        if self.token.kind not in {"newline", "end"} and not self.at_op("}"):
            raise HclSyntaxError("a new line is missing behind this block", self.token.start)
        return Block(
            type=name.text,
            labels=labels,
            body=body,
            path=self._path,
            line=self.line(name.start),
            end_line=self.line(end),
        )
