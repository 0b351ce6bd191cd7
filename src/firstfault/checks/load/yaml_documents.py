"""Reads YAML streams fast and with line numbers: libyaml's composer, and nothing that constructs objects from tags.

A stream that breaks in the middle still gives the documents before the break. Aliases are resolved by sharing, so a
"billion laughs" file costs no memory here; it is refused by the size that it *would* have, because checks walk trees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]  # exists; the stubs forget to export it
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.resolver import Resolver

from firstfault.checks.located import LocatedDict, LocatedList
from firstfault.errors import InputError, LimitError

__all__ = ["MAX_DEPTH", "MAX_NODES", "YamlStream", "read_yaml"]

MAX_DEPTH = 100
MAX_NODES = 2_000_000
_MAX_INTEGER_BITS = 256
_STR = "tag:yaml.org,2002:str"
_BOOL = "tag:yaml.org,2002:bool"
# Kubernetes' and Terraform's readers take these for booleans, PyYAML does not.
_SHORT_BOOLS = frozenset({"y", "Y", "n", "N"})
_RESOLVED: dict[str, str] = {}
_RESOLVED_LIMIT = 50_000


class _Composer(CParser, Resolver):
    """libyaml's composer with the part of tag resolution cached that PyYAML does in Python for every scalar."""

    def __init__(self, stream: str) -> None:
        CParser.__init__(self, stream)
        Resolver.__init__(self)

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """No path resolvers are used: skip their bookkeeping."""

    def ascend_resolver(self) -> None:
        """No path resolvers are used: skip their bookkeeping."""

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> str:
        """Return the tag of a node by the rules of YAML 1.1, which Kubernetes' own reader follows."""
        if kind is not ScalarNode:
            return "tag:yaml.org,2002:map" if kind is MappingNode else "tag:yaml.org,2002:seq"
        if not implicit[0]:
            return _STR
        tag = _RESOLVED.get(value)
        if tag is None:
            if len(_RESOLVED) > _RESOLVED_LIMIT:
                _RESOLVED.clear()
            if value in _SHORT_BOOLS:
                return _BOOL
            tag = _RESOLVED[value] = str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        return tag


class YamlStream(msgspec.Struct, frozen=True):
    """The documents of one stream, and what ended it early.

    Attributes:
        documents: Values of the documents that were complete; null documents are left out.
        problem: Why reading stopped, or None. `problem_line` is the line where it did.
    """

    documents: list[Any]
    problem: InputError | None = None
    problem_line: int = 1


class _Builder:
    """Builds located values out of the nodes of one document."""

    def __init__(self, path: str, end_line: int = 0) -> None:
        self._path = path
        self._end_line = end_line
        self._built: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()
        self._scalars = yaml.constructor.SafeConstructor()

    def build(self, node: Node, depth: int = 0) -> tuple[Any, int]:
        """Return the value of `node` and the number of nodes that it would have with every alias written out."""
        if isinstance(node, ScalarNode):
            return self._scalar(node), 1
        key = id(node)
        if key in self._built:
            return self._built[key]
        line = node.start_mark.line + 1
        if key in self._open:
            raise InputError(f"{self._path}:{line}: an alias refers to the node that contains it")
        if depth > MAX_DEPTH:
            raise LimitError(f"{self._path}:{line}: nested more than {MAX_DEPTH} levels deep", "split the file")
        self._open.add(key)
        if isinstance(node, MappingNode):
            result: tuple[Any, int] = self._mapping(node, depth)
        else:
            assert isinstance(node, SequenceNode)
            result = self._sequence(node, depth)
        self._open.discard(key)
        if result[1] > MAX_NODES:
            raise LimitError(
                f"{self._path}:{line}: would hold more than {MAX_NODES:,} values once its aliases are written out",
                "remove the nested aliases; no manifest needs them",
            )
        self._built[key] = result
        return result

    def _mapping(self, node: MappingNode, depth: int) -> tuple[LocatedDict, int]:
        result = LocatedDict(node.start_mark.line + 1, _last_line(node), self._path if depth == 0 else "")
        size = 1
        merged: list[Any] = []
        for key_node, value_node in node.value:
            value, count = self.build(value_node, depth + 1)
            size += count
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged.extend(value if isinstance(value, list) else [value])
                continue
            key = self.build(key_node, depth + 1)[0]
            if isinstance(key, (dict, list)):
                raise InputError(f"{self._path}:{key_node.start_mark.line + 1}: a key must be a scalar")
            result[key] = value
            result.key_lines[key] = key_node.start_mark.line + 1
        for other in merged:
            if isinstance(other, LocatedDict):
                for key, value in other.items():
                    if key not in result:
                        result[key] = value
                        result.key_lines[key] = other.key_lines.get(key, result.line)
        return result, size

    def _sequence(self, node: SequenceNode, depth: int) -> tuple[LocatedList, int]:
        result = LocatedList(node.start_mark.line + 1, _last_line(node))
        size = 1
        for item_node in node.value:
            value, count = self.build(item_node, depth + 1)
            size += count
            result.append(value)
            result.item_lines.append(item_node.start_mark.line + 1)
        return result, size

    def _scalar(self, node: ScalarNode) -> Any:
        tag = node.tag
        if tag == _STR:
            return node.value
        construct = _SCALARS.get(tag)
        if construct is None:
            # A tag of somebody's own (`!Ref`, `!reference`): its text is data for us, never an object.
            return node.value
        try:
            value = construct(self._scalars, node)
        except (ValueError, OverflowError):
            return node.value
        # Python declines to write very long integers as text: as a hexadecimal one it stays the text that it was.
        return node.value if isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS else value


_SCALARS: dict[str, Callable[[yaml.constructor.SafeConstructor, ScalarNode], Any]] = {
    "tag:yaml.org,2002:null": lambda _constructor, _node: None,
    _BOOL: lambda _constructor, node: node.value.lower() in {"y", "yes", "true", "on"},
    "tag:yaml.org,2002:int": lambda constructor, node: constructor.construct_yaml_int(node),
    "tag:yaml.org,2002:float": lambda constructor, node: constructor.construct_yaml_float(node),
}


def _last_line(node: Node) -> int:
    """Return the last line of a node: libyaml puts the end of a block at the start of the line after it."""
    end = node.end_mark
    return max(node.start_mark.line + 1, end.line + (1 if end.column else 0))


def read_yaml(text: str, path: str) -> YamlStream:
    """Read every document of `text`.

    Args:
        text: The stream.
        path: Name for messages and for the `path` of the outermost mappings.
    """
    documents: list[Any] = []
    try:
        composer = _Composer(text)
        while composer.check_node():
            node = composer.get_node()
            assert node is not None
            value, _ = _Builder(path).build(node)
            if value is not None:
                documents.append(value)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        column = mark.column + 1 if mark else 1
        what = " ".join(part for part in (error.context, error.problem) if part)
        return YamlStream(documents, InputError(f"{path}:{line}:{column}: not YAML: {what}"), line)
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        return YamlStream(documents, InputError(f"{path}:{line}: not YAML: {error.reason}"), line)
    except yaml.YAMLError as error:
        return YamlStream(documents, InputError(f"{path}: not YAML: {' '.join(str(error).split())}"), 1)
    except (InputError, RecursionError, ValueError) as error:
        problem = error if isinstance(error, InputError) else InputError(f"{path}: not YAML: {error}")
        return YamlStream(documents, problem, _line_in(str(problem), path))
    return YamlStream(documents)


def _line_in(message: str, path: str) -> int:
    """Return the line number of a message that starts with `path:line:`."""
    number = message.removeprefix(f"{path}:").partition(":")[0]
    return int(number) if number.isdigit() else 1
