"""Sets one value in a YAML text and leaves every other character as it is: comments, quotes, order, indentation."""

from __future__ import annotations

import json
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from firstfault.errors import InputError

__all__ = ["set_yaml"]


def set_yaml(text: str, line: int, steps: tuple[str | int, ...], value: Any) -> str:
    """Return the text with the value at `steps` of the document's object set.

    Args:
        line: Line on which the object starts (its document may hold several, in a List).

    Raises:
        InputError: The place cannot be changed by text alone (an alias, a tag, a value that is not a scalar).
    """
    offsets = _line_offsets(text)
    node = _object_at(text, line)
    index = 0
    while index < len(steps):
        child = _child(node, steps[index])
        if child is None:
            break
        node, index = child, index + 1
    if index == len(steps):
        if not isinstance(node, ScalarNode) or node.style in {"|", ">"}:
            raise InputError(f"line {node.start_mark.line + 1}: not a plain value that can be replaced")
        start, end = _offset(offsets, node.start_mark), _offset(offsets, node.end_mark)
        return f"{text[:start]}{_scalar(value)}{text[end:]}"
    rest = steps[index:]
    if not isinstance(node, MappingNode) or any(isinstance(step, int) for step in rest):
        raise InputError(f"line {node.start_mark.line + 1}: nothing can be added here")
    if node.flow_style:
        start = _offset(offsets, node.start_mark) + 1
        inner = _flow(rest, value)
        return f"{text[:start]}{inner}{', ' if node.value else ''}{text[start:]}"
    return _insert_block(text, offsets, node, rest, value)


def _object_at(text: str, line: int) -> Node:
    found: list[Node] = []

    def search(node: Node) -> None:
        if isinstance(node, MappingNode):
            if node.start_mark.line + 1 == line:
                found.append(node)
            for _, item in node.value:
                search(item)
        elif isinstance(node, SequenceNode):
            for item in node.value:
                search(item)

    for node in yaml.compose_all(text, Loader=yaml.CSafeLoader):
        if node is not None:
            search(node)
    if not found:
        raise InputError(f"line {line}: no object starts here")
    return found[0]


def _child(node: Node, step: str | int) -> Node | None:
    if isinstance(node, MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        child: Node = node.value[step]
        return child
    return None


def _line_offsets(text: str) -> list[int]:
    offsets = [0]
    for row in text.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(row))
    return offsets


def _offset(offsets: list[int], mark: yaml.Mark) -> int:
    return offsets[min(mark.line, len(offsets) - 1)] + mark.column


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        plain = yaml.safe_dump(value, width=10_000).split("\n", 1)[0]
        return plain if plain and not plain.startswith(("|", ">")) else json.dumps(value)
    return json.dumps(value)


def _flow(steps: tuple[str | int, ...], value: Any) -> str:
    inner = f"{steps[0]}: "
    return inner + (_scalar(value) if len(steps) == 1 else "{" + _flow(steps[1:], value) + "}")


def _insert_block(text: str, offsets: list[int], node: MappingNode, steps: tuple[str | int, ...], value: Any) -> str:
    """Insert lines into a block mapping: before its first key, or behind it where a dash stands before that key."""
    first_key, first_value = node.value[0]
    column = first_key.start_mark.column
    lines = []
    for depth, step in enumerate(steps):
        end = f" {_scalar(value)}" if depth == len(steps) - 1 else ""
        lines.append(f"{' ' * (column + 2 * depth)}{step}:{end}\n")
    row = first_key.start_mark.line
    rows = text.splitlines()
    before = text[offsets[row] : offsets[row] + column]
    if before.strip():
        # "- name: x": go on the line behind the first value.
        last = max(first_value.end_mark.line, row)
        row = last if first_value.end_mark.column == 0 and last > row else last + 1
    else:
        # A comment above the first key belongs to that key: go above it, but not above the head of the file.
        while column and row and rows[row - 1].startswith(f"{' ' * column}#"):
            row -= 1
    at = offsets[min(row, len(offsets) - 1)]
    newline = "" if at == 0 or text[at - 1] == "\n" else "\n"
    return f"{text[:at]}{newline}{''.join(lines)}{text[at:]}"
