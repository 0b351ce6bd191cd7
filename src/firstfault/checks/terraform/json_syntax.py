"""Terraform's JSON syntax (`*.tf.json`, `*.tfvars.json`): the same nodes as the native syntax gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firstfault.checks.load.yaml_documents import read_yaml
from firstfault.checks.located import LocatedDict, LocatedList, line_of
from firstfault.checks.terraform.expressions import ExpressionParser
from firstfault.checks.terraform.nodes import (
    Attribute,
    Block,
    Body,
    HclFile,
    HclProblem,
    Literal,
    Node,
    ObjectExpr,
    ObjectItem,
    TupleExpr,
)
from firstfault.checks.terraform.scanner import HclSyntaxError
from firstfault.checks.terraform.templates import build_template

__all__ = ["parse_json_configuration"]

_LABELS = {
    "resource": 2,
    "data": 2,
    "module": 1,
    "variable": 1,
    "output": 1,
    "provider": 1,
    "locals": 0,
    "terraform": 0,
}


def parse_json_configuration(text: str, path: str) -> HclFile:
    """Parse one file; never raises for what it contains."""
    # Libyaml reads JSON with lines; what it cannot read, Terraform is unlikely to have written.
    stream = read_yaml(text, path)
    if stream.problem is not None:
        problem = HclProblem(path, stream.problem_line, 1, str(stream.problem).partition(": ")[2])
        return HclFile(path, Body({}, []), [problem])
    value = stream.documents[0] if stream.documents else LocatedDict(1)
    if not isinstance(value, LocatedDict):
        return HclFile(path, Body({}, []), [HclProblem(path, 1, 1, "not a JSON object")])
    problems: list[HclProblem] = []
    if path.endswith(".tfvars.json"):
        return HclFile(path, _body(value, path, problems, literal=True), problems)
    blocks = [
        block
        for kind, content in value.items()
        for block in _blocks(str(kind), content, path, problems, line_of(value, kind))
    ]
    return HclFile(path, Body({}, blocks), problems)


def _blocks(kind: str, content: Any, path: str, problems: list[HclProblem], line: int) -> Iterator[Block]:
    def descend(value: Any, labels: list[str], left: int, at: int) -> Iterator[Block]:
        if isinstance(value, LocatedList):
            for index, item in enumerate(value):
                yield from descend(item, labels, left, line_of(value, index))
        elif isinstance(value, LocatedDict) and left:
            for label, inner in value.items():
                yield from descend(inner, [*labels, str(label)], left - 1, line_of(value, label))
        elif isinstance(value, LocatedDict):
            yield Block(kind, labels, _body(value, path, problems), path, at, value.end_line)

    yield from descend(content, [], _LABELS.get(kind, 0), line)


def _body(value: LocatedDict, path: str, problems: list[HclProblem], *, literal: bool = False) -> Body:
    attributes = {}
    for name, item in value.items():
        line = line_of(value, name)
        try:
            expr = _node(item, line, literal=literal)
        except HclSyntaxError as error:
            problems.append(HclProblem(path, line, 1, error.message))
            continue
        attributes[str(name)] = Attribute(str(name), expr, line, line, str(item))
    return Body(attributes, [])


def _node(value: Any, line: int, *, literal: bool) -> Node:
    if isinstance(value, LocatedDict):
        items = [
            ObjectItem(
                Literal(line=line, value=str(key)),
                _node(item, line_of(value, key), literal=literal),
                line_of(value, key),
            )
            for key, item in value.items()
            if key != "//"
        ]
        return ObjectExpr(line=value.line or line, items=items, end_line=value.end_line)
    if isinstance(value, LocatedList):
        nodes = [_node(item, line_of(value, index), literal=literal) for index, item in enumerate(value)]
        return TupleExpr(line=value.line or line, items=nodes, end_line=value.end_line)
    if isinstance(value, str) and not literal and ("${" in value or "%{" in value):
        parser = ExpressionParser(value, iter(()), lambda _offset: line)
        return build_template(value, 0, len(value), line, quoted=False, parse=parser.inside)
    return Literal(line=line, value=value)
