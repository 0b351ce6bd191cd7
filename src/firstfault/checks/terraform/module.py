"""One instance of a module: where its names are looked up, and its blocks after count, for_each and dynamic."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from firstfault.checks.located import LocatedDict, LocatedList, Unresolved
from firstfault.checks.terraform.evaluate import Budget, Evaluator
from firstfault.checks.terraform.model import TerraformBlock
from firstfault.checks.terraform.nodes import Attribute, Block, Body, HclFile, HclProblem
from firstfault.checks.terraform.policy_document import policy_json
from firstfault.checks.terraform.values import as_bool, convert

__all__ = ["ModuleInstance", "ModuleSource"]

_META = frozenset({"count", "for_each", "provider", "providers", "depends_on", "lifecycle", "source", "version"})
_MAX_INSTANCES = 2_000
_MAX_MODULE_DEPTH = 20
_LISTED = ("resource", "data", "module", "provider", "output", "check", "import", "moved", "removed", "terraform")
_ANY_KEY = "*"


class ModuleSource(Protocol):
    """The files of modules, and of the functions that read files."""

    budget: Budget
    problems: list[HclProblem]

    def local_module(self, directory: str, source: str) -> tuple[str, list[HclFile]] | None:
        """Return (directory, files) of a module called by a local path; None when it is not at hand."""

    def read_file(self, function: str, path: str, module_directory: str) -> str | Unresolved:
        """Return the text of a file inside the audited folders."""


class _Evaluating:
    """Marks a local or output that is being evaluated: meeting it again is a cycle."""


_EVALUATING = _Evaluating()


class ModuleInstance:
    """A module with its input values.

    Attributes:
        address: `module.a.module.b[0]`; empty for the root.
        directory: Folder of its files.
        variables: Input values by name.
        budget: Shared by the whole audit.
    """

    def __init__(
        self,
        source: ModuleSource,
        directory: str,
        files: list[HclFile],
        variables: Mapping[str, Any],
        address: str = "",
        root_directory: str = "",
        callers: tuple[str, ...] = (),
    ) -> None:
        source.budget.enter_module()
        self._callers = (*callers, directory)
        self.address = address
        self.directory = directory
        self.variables = dict(variables)
        self.budget = source.budget
        self._source = source
        self._root_directory = root_directory or directory
        self._locals: dict[str, Attribute] = {}
        self._local_paths: dict[str, str] = {}
        self._underway: list[tuple[str, str]] = []
        self._memo: dict[tuple[str, str], Any] = {}
        self._blocks: dict[tuple[str, str, str], Block] = {}
        self._declared: set[str] = set()
        self.all_blocks: list[Block] = []
        for file in files:
            self.all_blocks.extend(file.body.blocks)
        for block in self.all_blocks:
            self._index(block)

    def _index(self, block: Block) -> None:
        if block.type == "locals":
            self._locals.update(block.body.attributes)
            self._local_paths.update(dict.fromkeys(block.body.attributes, block.path))
        elif block.type in {"resource", "data"} and len(block.labels) == 2:
            self._blocks[block.type, block.labels[0], block.labels[1]] = block
        elif block.type in {"module", "output", "variable"} and block.labels:
            self._blocks[block.type, block.labels[0], ""] = block
            if block.type == "variable":
                self._declared.add(block.labels[0])

    # -- names ---------------------------------------------------------------------------------------------------

    def reference(self, path: list[str]) -> tuple[Any, int]:
        """Return the value of the longest reference at the start of `path`, and how many names it took."""
        first, name = path[0], path[1] if len(path) > 1 else ""
        if first == "module" and name:
            return self._module_output(name, path[2] if len(path) > 2 else ""), min(len(path), 3)
        if name and first in _NAMED:
            return _NAMED[first](self, name), 2
        if first in {"each", "count", "self"}:
            return Unresolved(f"{first} has no value here", ".".join(path)), len(path)
        mode, labels = ("data", path[1:3]) if first == "data" else ("resource", path[:2])
        if len(labels) == 2:
            used = 3 if mode == "data" else 2
            attribute = path[used] if len(path) > used else ""
            return self._resource(mode, labels[0], labels[1], attribute), used + bool(attribute)
        return Unresolved(f"{first} is not declared", ".".join(path)), len(path)

    def _path(self, name: str) -> str:
        return {"module": self.directory, "root": self._root_directory, "cwd": "."}.get(name, "")

    def _terraform(self, name: str) -> Unresolved:
        return Unresolved("the workspace is chosen when Terraform runs", f"terraform.{name}")

    def _local_value(self, name: str) -> Any:
        return self._once("local", name, self._local)

    def read_file(self, function: str, path: str) -> str | Unresolved:
        """Return a file's text, when it lies inside the audited folders."""
        return self._source.read_file(function, path, self.directory)

    def _variable(self, name: str) -> Any:
        if name in self.variables:
            return self.variables[name]
        return Unresolved(f"variable {name} is not declared", self._ref(f"var.{name}"))

    def _once(self, kind: str, name: str, make: Any) -> Any:
        key = (kind, name)
        value = self._memo.get(key, None)
        if value is _EVALUATING:
            self._note_cycle(key)
            return Unresolved(f"{kind} {name} refers to itself")
        if value is None and key not in self._memo:
            self._memo[key] = _EVALUATING
            self._underway.append(key)
            try:
                value = self._memo[key] = make(name)
            finally:
                self._underway.pop()
        return value

    def _note_cycle(self, key: tuple[str, str]) -> None:
        """Report locals that need each other, which Terraform refuses.

        A way round through a module or an output may be none: only the outputs that are asked for count there.
        """
        if key not in self._underway:
            return
        way = self._underway[self._underway.index(key) :]
        if any(kind != "local" for kind, _ in way):
            return
        first = min(range(len(way)), key=lambda place: self._locals[way[place][1]].line)
        names = [name for _, name in (*way[first:], *way[:first])]
        said = " -> ".join(f"local.{name}" for name in (*names, names[0]))
        line = self._locals[names[0]].line
        problem = HclProblem(self._local_paths[names[0]], line, 1, f"a cycle, which Terraform refuses: {said}")
        if problem not in self._source.problems:
            self._source.problems.append(problem)

    def _local(self, name: str) -> Any:
        attribute = self._locals.get(name)
        if attribute is None:
            return Unresolved(f"local {name} is not declared", self._ref(f"local.{name}"))
        return self._evaluator().value(attribute.expr)

    def _module_output(self, name: str, output: str) -> Any:
        ref = self._ref(f"module.{name}.{output}" if output else f"module.{name}")
        block = self._blocks.get(("module", name, ""))
        if block is None:
            return Unresolved(f"module {name} is not declared", ref)
        if "count" in block.body.attributes or "for_each" in block.body.attributes:
            return Unresolved(f"module {name} has several instances", self._ref(f"module.{name}"))
        children = self._once("module", name, lambda _name: self._children(block))
        child = next(iter(children.values()), None)
        if not isinstance(child, ModuleInstance) or not output:
            return Unresolved(f"{ref} is computed by a module whose source is not at hand", ref)
        return child.output(output)

    def output(self, name: str) -> Any:
        """Return an output's value."""
        return self._once("output", name, self._output)

    def _output(self, name: str) -> Any:
        block = self._blocks.get(("output", name, ""))
        if block is None or "value" not in block.body.attributes:
            return Unresolved(f"{self.address or 'the root'} has no output {name}")
        return self._evaluator().value(block.body.attributes["value"].expr)

    def _resource(self, mode: str, kind: str, name: str, attribute: str) -> Any:
        ref = self._ref(
            ".".join([*(["data"] if mode == "data" else []), kind, name, *([attribute] if attribute else [])])
        )
        block = self._blocks.get((mode, kind, name))
        if block is None:
            return Unresolved(f"{kind}.{name} is not declared in this configuration", ref)
        several = "count" in block.body.attributes or "for_each" in block.body.attributes
        if not attribute or several:
            # An index or splat follows; the instance's attributes are not looked into.
            return Unresolved(f"{ref} is known after apply", ref)
        if mode == "data" and kind == "aws_iam_policy_document" and attribute in {"json", "minified_json"}:
            return self._once("policy", name, lambda _name: policy_json(self._body(block.body, self._evaluator())))
        written = block.body.attributes.get(attribute)
        if written is not None:
            return self._once(f"{mode}.{kind}.{name}", attribute, lambda _name: self._evaluator().value(written.expr))
        why = "is read when Terraform runs" if mode == "data" else "is known after apply"
        return Unresolved(f"{ref} {why}", ref)

    def _ref(self, text: str) -> str:
        return f"{self.address}.{text}" if self.address else text

    def _evaluator(self, names: Mapping[str, Any] | None = None) -> Evaluator:
        return Evaluator(self, names)

    @property
    def local_sources(self) -> dict[str, str]:
        """Expressions of the locals, as written."""
        return {name: attribute.source for name, attribute in self._locals.items()}

    # -- instances -----------------------------------------------------------------------------------------------

    def blocks(self, depth: int = 0) -> Iterator[TerraformBlock]:
        """Yield the evaluated blocks of this module and of the local modules that it calls."""
        for name in self._locals:
            with contextlib.suppress(RecursionError):  # whoever uses it meets that again
                self._local_value(name)  # also those that no block uses: a cycle is an error wherever it is
        for block in self.all_blocks:
            if block.type not in _LISTED:
                continue
            for key, names in self._instances(block.body):
                yield self._evaluated(block, key, names)
        if depth < _MAX_MODULE_DEPTH:
            for block in self.all_blocks:
                if block.type == "module" and block.labels:
                    children = self._once("module", block.labels[0], lambda _name, block=block: self._children(block))
                    for child in children.values():
                        if child is not None:
                            yield from child.blocks(depth + 1)

    def variable_blocks(self) -> Iterator[tuple[Block, TerraformBlock]]:
        """Yield the declarations of input variables, as parsed and as evaluated (conditions stay text)."""
        for block in self.all_blocks:
            if block.type == "variable" and block.labels:
                yield block, self._evaluated(block, "", {})

    def _instances(self, body: Body) -> list[tuple[str, dict[str, Any]]]:
        """Return (key, names) for each instance; the key is `[0]`, `["a"]`, or empty for a single one."""
        evaluator = self._evaluator()
        if "count" in body.attributes:
            count = evaluator.value(body.attributes["count"].expr)
            if isinstance(count, Unresolved):
                index = Unresolved("the number of instances is not known", "count.index")
                return [("[*]", {"count": {"index": index}})]
            is_number = isinstance(count, (int, float)) and not isinstance(count, bool)
            number = int(min(count, _MAX_INSTANCES)) if is_number and count == count else 0  # noqa: PLR0124 - not NaN
            return [(f"[{index}]", {"count": {"index": index}}) for index in range(min(number, _MAX_INSTANCES))]
        if "for_each" in body.attributes:
            return [
                (f"[{json.dumps(str(key))}]", {"each": {"key": key, "value": value}})
                for key, value in _pairs(evaluator.value(body.attributes["for_each"].expr))
            ]
        return [("", {})]

    def _evaluated(self, block: Block, key: str, names: Mapping[str, Any]) -> TerraformBlock:
        body = self._body(block.body, self._evaluator(names), text_only=_TEXT_ONLY.get(block.type, frozenset()))
        body.line, body.end_line, body.path = block.line, block.end_line, block.path
        name = block.labels[-1] if block.labels else ""
        kind = block.labels[0] if len(block.labels) > 1 else ""
        if block.type == "module":
            source = body.get("source")
            kind = source if isinstance(source, str) else ""
        prefix = "" if block.type == "resource" else f"{block.type}."
        labels = ".".join(block.labels)
        return TerraformBlock(
            kind=block.type,
            type=kind,
            name=name,
            address=self._ref(f"{prefix}{labels}{key}".rstrip(".")),
            body=body,
            path=block.path,
            module=self.address,
            written={name: attribute.source for name, attribute in block.body.attributes.items()},
        )

    def _children(self, block: Block) -> dict[str, ModuleInstance | None]:
        """Return the instances of a module call by their keys; None where the source is not at hand."""
        evaluator = self._evaluator()
        source = block.body.attributes.get("source")
        path = evaluator.value(source.expr) if source else None
        found = self._source.local_module(self.directory, path) if isinstance(path, str) else None
        children: dict[str, ModuleInstance | None] = {}
        too_deep = len(self._callers) > _MAX_MODULE_DEPTH
        if too_deep and found is not None:
            self._report(block, f"nested in more than {_MAX_MODULE_DEPTH} modules: what this one holds is not judged")
        for key, names in self._instances(block.body):
            if found is None or too_deep or self._is_cycle(found[0], block):
                children[key] = None
                continue
            directory, files = found
            inner = self._evaluator(names)
            given = {
                name: inner.value(attribute.expr)
                for name, attribute in block.body.attributes.items()
                if name not in _META
            }
            address = self._ref(f"module.{block.labels[0]}{key}")
            child = ModuleInstance(self._source, directory, files, {}, address, self._root_directory, self._callers)
            child.variables = child.with_defaults(given)
            children[key] = child
        return children

    def _is_cycle(self, directory: str, block: Block) -> bool:
        """Tell whether a call leads back to a module around it, which Terraform refuses, and report it."""
        if directory not in self._callers:
            return False
        way = (*self._callers[self._callers.index(directory) :], directory)
        self._report(block, f"a cycle of modules, which Terraform refuses: {' -> '.join(way)}")
        return True

    def _report(self, block: Block, message: str) -> None:
        problem = HclProblem(block.path, block.line, 1, message)
        if problem not in self._source.problems:
            self._source.problems.append(problem)

    def with_defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of all declared variables: what is given, else the default, converted to the type."""
        values: dict[str, Any] = {}
        for block in self.all_blocks:
            if block.type != "variable" or not block.labels:
                continue
            name = block.labels[0]
            kind = block.body.attributes.get("type")
            if name in given:
                value = given[name]
                nullable = block.body.attributes.get("nullable")
                if value is None and nullable and as_bool(self._evaluator().value(nullable.expr)) is False:
                    value = self._default(block, name)
            else:
                value = self._default(block, name)
            values[name] = convert(value, kind.expr if kind else None, self._evaluator().value)
        return values

    def _default(self, block: Block, name: str) -> Any:
        default = block.body.attributes.get("default")
        if default is None:
            return Unresolved(f"variable {name} has no default and no tfvars file sets it", self._ref(f"var.{name}"))
        return self._evaluator().value(default.expr)

    def _body(
        self, body: Body, evaluator: Evaluator, depth: int = 0, text_only: frozenset[str] = frozenset()
    ) -> LocatedDict:
        """Evaluate a body: arguments as values, nested blocks as lists of mappings under their type."""
        result = LocatedDict()
        for name, attribute in body.attributes.items():
            value = attribute.source if name in text_only else evaluator.value(attribute.expr)
            result[name] = value
            result.key_lines[name] = attribute.line
        for block in body.blocks:
            if depth > _MAX_MODULE_DEPTH:
                break
            if block.type == "dynamic" and block.labels:
                self._dynamic(block, evaluator, depth, result)
            else:
                inner = self._body(block.body, evaluator, depth + 1, text_only)
                inner.line, inner.end_line = block.line, block.end_line
                _append(result, block.type, inner)
        return result

    def _dynamic(self, block: Block, evaluator: Evaluator, depth: int, result: LocatedDict) -> None:
        each = block.body.attributes.get("for_each")
        content = next((inner for inner in block.body.blocks if inner.type == "content"), None)
        if each is None or content is None:
            return
        iterator = block.body.attributes.get("iterator")
        name = iterator.source.strip() if iterator else block.labels[0]
        for key, value in _pairs(evaluator.value(each.expr)):
            inner = evaluator.with_names({name: {"key": key, "value": value}})
            body = self._body(content.body, inner, depth + 1)
            body.line, body.end_line = block.line, block.end_line
            _append(result, block.labels[0], body)


_NAMED: dict[str, Callable[[ModuleInstance, str], Any]] = {
    "var": ModuleInstance._variable,  # noqa: SLF001 - the class's own table
    "local": ModuleInstance._local_value,  # noqa: SLF001
    "path": ModuleInstance._path,  # noqa: SLF001
    "terraform": ModuleInstance._terraform,  # noqa: SLF001
}
# Arguments whose expression is looked at as text: they refer to what only a plan has.
_TEXT_ONLY = {"variable": frozenset({"type", "condition"}), "check": frozenset({"condition"})}


def _append(body: LocatedDict, name: str, value: LocatedDict) -> None:
    items = body.get(name)
    if not isinstance(items, LocatedList):
        items = LocatedList(value.line, value.end_line)
        body[name] = items
        body.key_lines[name] = value.line
    items.append(value)
    items.item_lines.append(value.line)


def _pairs(collection: Any) -> list[tuple[Any, Any]]:
    """Return the pairs of a for_each; one with an unknown key and value where the collection is not known."""
    if isinstance(collection, dict):
        return list(collection.items())[:_MAX_INSTANCES]
    if isinstance(collection, list):
        # for_each of a resource takes sets, where key and value are the same; a dynamic block takes lists, too.
        return [
            (item if isinstance(item, (str, Unresolved)) else index, item) for index, item in enumerate(collection)
        ][:_MAX_INSTANCES]
    if isinstance(collection, Unresolved):
        return [(_ANY_KEY, Unresolved(collection.reason, f"{collection.ref}[*]" if collection.ref else ""))]
    return []
