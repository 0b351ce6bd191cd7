"""Where a value really comes from: the variable behind an argument, and what a validation would say of a value."""

from __future__ import annotations

import re
from typing import Any

from firstfault.checks.located import Unresolved
from firstfault.checks.terraform.evaluate import Budget, Evaluator
from firstfault.checks.terraform.expressions import ExpressionParser
from firstfault.checks.terraform.model import TerraformBlock, TerraformConfig, VariableValue
from firstfault.checks.terraform.scanner import HclSyntaxError, tokenize

__all__ = ["condition_holds", "variable_behind"]

_VARIABLE = re.compile(r"var\.([A-Za-z_][\w-]*)\b")
_PLAIN = re.compile(r"\s*var\.([A-Za-z_][\w-]*)\s*")


def variable_behind(config: TerraformConfig, block: TerraformBlock, argument: str) -> VariableValue | None:
    """Return the root variable that an argument takes its value from, through calls of local modules and locals.

    Returns None for a literal, and where the expression mentions no variable or several.
    """
    text = block.written.get(argument, "")
    module = block.module
    for _ in range(20):
        names = set(_VARIABLE.findall(text))
        if len(names) != 1:
            return _through_local(config, text, module)
        name = names.pop()
        if not module:
            return config.variables.get(name)
        caller = next((item for item in config.find("module") if item.address == module), None)
        if caller is None:
            return None
        text, module = caller.written.get(name, ""), caller.module
    return None


def _through_local(config: TerraformConfig, text: str, module: str) -> VariableValue | None:
    """Follow one local of the root that is nothing but a variable."""
    match = re.fullmatch(r"\s*local\.([A-Za-z_][\w-]*)\s*", text)
    if match is None or module:
        return None
    inner = _PLAIN.fullmatch(config.local_sources.get(match[1], ""))
    return config.variables.get(inner[1]) if inner else None


class _Values:
    """A scope that knows variables only."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.budget = Budget(100_000)
        self._values = values

    def reference(self, path: list[str]) -> tuple[Any, int]:
        """Return a variable's value."""
        if path[0] == "var" and len(path) > 1 and path[1] in self._values:
            return self._values[path[1]], 2
        return Unresolved(f"{'.'.join(path)} is not known here", ".".join(path)), len(path)

    def read_file(self, function: str, path: str) -> Unresolved:
        """Read nothing: a condition has no files."""
        return Unresolved(f"{function}({path}) is not read here")


def condition_holds(text: str, values: dict[str, Any]) -> bool | Unresolved:
    """Evaluate a condition's text with the given values of variables."""
    parser = ExpressionParser(text, tokenize(text, 0, len(text)), lambda _offset: 1)
    try:
        node = parser.inside(0, len(text))
    except HclSyntaxError as error:
        return Unresolved(f"the condition cannot be read: {error.message}")
    value = Evaluator(_Values(values)).value(node)
    return value if isinstance(value, (bool, Unresolved)) else Unresolved("the condition is no bool")
