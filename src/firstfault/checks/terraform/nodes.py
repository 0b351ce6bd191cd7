"""The syntax tree of HCL: expressions, blocks and files. Every node knows its line.

Why our own reader and not a library: an audit has to tell "null" from "cannot be known", name the line of a single
argument, and go on behind a syntax error. tfparse gives null for whatever it cannot evaluate inside a value (a policy
that mentions the account id becomes an empty one) and drops a broken file silently; python-hcl2 evaluates nothing.
Both tfparse and the real program serve as oracles of our tests instead (tests/checks/test_terraform_oracle.py).
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "Attribute",
    "Binary",
    "Block",
    "Body",
    "Call",
    "Conditional",
    "ForExpr",
    "GetAttr",
    "HclFile",
    "HclProblem",
    "Index",
    "Literal",
    "Node",
    "ObjectExpr",
    "ObjectItem",
    "Root",
    "Splat",
    "Template",
    "TemplateFor",
    "TemplateIf",
    "TupleExpr",
    "Unary",
]


class Node(msgspec.Struct, kw_only=True, eq=False):
    """Base of all expressions."""

    line: int


class Literal(Node):
    """A number, bool, null, or string without interpolation."""

    value: Any


class Template(Node):
    """A string with interpolations; the parts are concatenated. `heredoc` ones keep their line structure."""

    parts: list[Node]


class TemplateIf(Node):
    """`%{ if … }…%{ else }…%{ endif }`."""

    condition: Node
    then: Node
    otherwise: Node


class TemplateFor(Node):
    """`%{ for k, v in … }…%{ endfor }`."""

    key: str
    value: str
    collection: Node
    body: Node


class Root(Node):
    """The first name of a reference: `var`, `local`, `each`, `aws_instance`, a `for` variable."""

    name: str


class GetAttr(Node):
    """`target.name`."""

    target: Node
    name: str


class Index(Node):
    """`target[key]`."""

    target: Node
    key: Node


class Splat(Node):
    """`target[*].rest` or `target.*.rest`; `steps` are the accesses applied to each item."""

    target: Node
    steps: list[str | Node]


class Call(Node):
    """`name(arguments...)`; `expand` when the last argument ends with an ellipsis."""

    name: str
    arguments: list[Node]
    expand: bool = False


class Conditional(Node):
    """`condition ? then : otherwise`."""

    condition: Node
    then: Node
    otherwise: Node


class Binary(Node):
    """An operation of two operands."""

    operator: str
    left: Node
    right: Node


class Unary(Node):
    """`!x` or `-x`."""

    operator: str
    operand: Node


class TupleExpr(Node):
    """`[a, b]`."""

    items: list[Node]
    end_line: int = 0


class ObjectItem(msgspec.Struct, eq=False):
    """`key = value` of an object."""

    key: Node
    value: Node
    line: int


class ObjectExpr(Node):
    """`{ a = 1, b = 2 }`."""

    items: list[ObjectItem]
    end_line: int = 0


class ForExpr(Node):
    """`[for k, v in c : value if condition]` or, with `key_expr`, `{for k, v in c : key => value... if condition}`."""

    key: str
    value: str
    collection: Node
    key_expr: Node | None
    value_expr: Node
    condition: Node | None
    group: bool = False


class Attribute(msgspec.Struct, eq=False):
    """`name = expression`; `source` is the text of the expression as written."""

    name: str
    expr: Node
    line: int
    end_line: int
    source: str


class Body(msgspec.Struct, eq=False):
    """Arguments and nested blocks in file order."""

    attributes: dict[str, Attribute]
    blocks: list[Block]


class Block(msgspec.Struct, eq=False):
    """`type "label" … { body }`."""

    type: str
    labels: list[str]
    body: Body
    path: str
    line: int
    end_line: int


class HclProblem(msgspec.Struct, frozen=True):
    """Text that could not be understood; reading went on with the next block."""

    path: str
    line: int
    column: int
    message: str


class HclFile(msgspec.Struct, eq=False):
    """One file: its top-level body, and what had to be skipped."""

    path: str
    body: Body
    problems: list[HclProblem]
