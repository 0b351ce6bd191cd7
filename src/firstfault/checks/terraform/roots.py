"""Finds the root modules among the audited files and evaluates each with every set of tfvars that belongs to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from firstfault.checks.located import Place, Unresolved
from firstfault.checks.terraform.evaluate import MAX_MODULES, Budget, Evaluator
from firstfault.checks.terraform.functions import EvaluationLimitError
from firstfault.checks.terraform.json_syntax import parse_json_configuration
from firstfault.checks.terraform.model import TerraformBlock, TerraformConfig, VariableValue
from firstfault.checks.terraform.module import ModuleInstance
from firstfault.checks.terraform.nodes import Attribute, Block, HclFile, HclProblem
from firstfault.checks.terraform.parser import parse_hcl

__all__ = ["TerraformTree", "is_terraform_file"]

_MAX_READ_BYTES = 2 * 1024 * 1024
_LOCAL = ("./", "../")


def is_terraform_file(name: str) -> bool:
    """Tell whether a file name is one that Terraform reads."""
    return name.endswith((".tf", ".tf.json", ".tfvars", ".tfvars.json"))


class TerraformTree:
    """All Terraform files of an audit.

    Args:
        texts: Text of each audited file by its path; other files of the audited folders serve `file()`.
        budget: Work that evaluation may take.

    Attributes:
        problems: Syntax errors, filled while files are parsed.
    """

    def __init__(self, texts: dict[str, str], budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.problems: list[HclProblem] = []
        self._texts = texts
        self._folders: dict[str, list[HclFile]] = {}
        self._tfvars: dict[str, HclFile] = {}
        for path, text in texts.items():
            if path.endswith((".tfvars", ".tfvars.json")):
                self._tfvars[path] = self._parse(path, text)
            elif is_terraform_file(path):
                self._folders.setdefault(_folder(path), []).append(self._parse(path, text))

    def _parse(self, path: str, text: str) -> HclFile:
        parse = parse_json_configuration if path.endswith(".json") else parse_hcl
        file = parse(text, path)
        self.problems.extend(file.problems)
        return file

    def configs(self) -> Iterator[TerraformConfig]:
        """Yield one configuration for each root and each set of tfvars."""
        calls = {folder: set(self._called_by(folder, files)) for folder, files in self._folders.items()}
        called = set().union(*calls.values()) if calls else set()
        reached: set[str] = set()
        # Folders that only call each other have no root among them: the first one shows the cycle.
        for folder in (*sorted(set(calls) - called), *sorted(called)):
            if folder not in reached:
                reached |= _reached_from(folder, calls)
                yield from self._root_configs(folder)

    # -- what modules ask for ------------------------------------------------------------------------------------

    def local_module(self, directory: str, source: str) -> tuple[str, list[HclFile]] | None:
        """Return (directory, files) of a module called by a local path; None when it is not at hand."""
        if not source.startswith(_LOCAL):
            return None
        folder = os.path.normpath(os.path.join(directory, source)).replace(os.sep, "/")  # noqa: PTH118 - no access
        files = self._folders.get(folder)
        return (folder, files) if files else None

    def read_file(self, function: str, path: str, module_directory: str) -> str | Unresolved:
        """Return the text of a file that was loaded, or that lies beside the files that were."""
        del module_directory  # paths are written with ${path.module}, which is the folder as the audit names it
        where = os.path.normpath(path).replace(os.sep, "/")
        if where in self._texts:
            return self._texts[where]
        file = Path(where)
        inside = any(_is_below(where, folder) for folder in self._folders)
        if not inside or file.is_symlink() or not file.is_file() or file.stat().st_size > _MAX_READ_BYTES:
            return Unresolved(f"{function}() reads {path}, which is not among the audited files")
        try:
            return file.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return Unresolved(f"{function}() reads {path}, which is no text file")

    # -- roots ---------------------------------------------------------------------------------------------------

    def _called_by(self, folder: str, files: list[HclFile]) -> Iterator[str]:
        for file in files:
            for block in file.body.blocks:
                source = block.body.attributes.get("source") if block.type == "module" else None
                value = getattr(source.expr, "value", None) if source else None
                found = self.local_module(folder, value) if isinstance(value, str) else None
                if found and found[0] != folder:
                    yield found[0]

    def _root_configs(self, folder: str) -> Iterator[TerraformConfig]:
        files = self._folders[folder]
        declared = {block.labels[0] for file in files for block in file.body.blocks if _is_variable(block)}
        automatic, optional = self._tfvars_of(folder, declared)
        base: dict[str, Attribute] = {}
        sources: dict[str, str] = {}
        for path in automatic:
            base |= self._tfvars[path].body.attributes
            sources |= dict.fromkeys(self._tfvars[path].body.attributes, path)
        if not optional or self._runs_without(files, base):
            yield self._evaluate(folder, files, base, sources, "")
        for path in optional:
            extra = self._tfvars[path].body.attributes
            yield self._evaluate(folder, files, base | extra, sources | dict.fromkeys(extra, path), path)

    def _tfvars_of(self, folder: str, declared: set[str]) -> tuple[list[str], list[str]]:
        """Return the tfvars that Terraform loads by itself, and those that somebody passes with -var-file.

        The second kind is any other tfvars file in or below the root whose variables the root declares.
        """
        automatic, optional = [], []
        for path, file in sorted(self._tfvars.items()):
            name = PurePosixPath(path).name
            is_automatic = name in {"terraform.tfvars", "terraform.tfvars.json"} or ".auto.tfvars" in name
            if _folder(path) == folder and is_automatic:
                automatic.append(path)
            elif (
                _is_below(path, folder)
                and declared & set(file.body.attributes)
                and not (_folder(path) != folder and _folder(path) in self._folders)
            ):
                optional.append(path)
        automatic.sort(key=lambda path: (".auto.tfvars" in path, path))
        return automatic, optional

    @staticmethod
    def _runs_without(files: list[HclFile], base: dict[str, Attribute]) -> bool:
        required = {
            block.labels[0]
            for file in files
            for block in file.body.blocks
            if _is_variable(block) and "default" not in block.body.attributes
        }
        return required <= set(base)

    def _evaluate(
        self, folder: str, files: list[HclFile], given: dict[str, Attribute], sources: dict[str, str], var_file: str
    ) -> TerraformConfig:
        self.budget.modules_left = MAX_MODULES  # a configuration that takes all leaves the next one its own
        module = ModuleInstance(self, folder, files, {})
        plain = Evaluator(module)
        values = {name: plain.value(attribute.expr) for name, attribute in given.items()}
        module.variables = module.with_defaults(values)
        variables: dict[str, VariableValue] = {}
        blocks: list[TerraformBlock] = []
        try:
            for parsed, declaration in module.variable_blocks():
                variables[declaration.name] = _variable(module, parsed, declaration, given, sources)
            blocks.extend(module.blocks())  # those before a failure are kept
        except (EvaluationLimitError, RecursionError) as error:
            why = str(error) if isinstance(error, EvaluationLimitError) else "it is nested too deep to evaluate"
            self.problems.append(HclProblem(files[0].path, 1, 1, f"not evaluated to the end: {why}"))
        except Exception as error:  # noqa: BLE001 - the edge of a root: what was not foreseen in it hides no other
            why = f"a defect of firstfault: {type(error).__name__}: {error}"
            self.problems.append(HclProblem(files[0].path, 1, 1, f"not evaluated to the end: {why}"))
        return TerraformConfig(
            root=folder, blocks=blocks, variables=variables, var_file=var_file, local_sources=module.local_sources
        )


def _variable(
    module: ModuleInstance, parsed: Block, declaration: Any, given: dict[str, Attribute], sources: dict[str, str]
) -> VariableValue:
    name = declaration.name
    default = parsed.body.attributes.get("default")
    if name in given:
        source, place = sources[name], Place(sources[name], given[name].line, given[name].end_line)
    elif default is not None:
        source, place = "default", Place(parsed.path, default.line, default.end_line)
    else:
        source, place = "", Place(parsed.path, parsed.line, parsed.end_line)
    return VariableValue(
        name=name, value=module.variables.get(name), source=source, place=place, declaration=declaration
    )


def _is_variable(block: Block) -> bool:
    return block.type == "variable" and bool(block.labels)


def _reached_from(folder: str, calls: dict[str, set[str]]) -> set[str]:
    """Return a folder and all that it calls, directly or through others."""
    found, waiting = {folder}, [folder]
    while waiting:
        new = calls.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def _folder(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _is_below(path: str, folder: str) -> bool:
    return (folder == "." and not path.startswith(("/", "../"))) or path.startswith(f"{folder}/")
