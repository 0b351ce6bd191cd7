"""Reads `terraform show -json` plans into the same blocks that configurations give.

Plans hold secrets: sensitive values are dropped here and never reach a report.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firstfault.checks.located import ABSENT, LocatedDict, LocatedList, Place, Unresolved, dig
from firstfault.checks.terraform.model import TerraformBlock, TerraformConfig, VariableValue
from firstfault.errors import InputError

__all__ = ["is_plan", "plan_config"]


def is_plan(value: Any) -> bool:
    """Tell whether a JSON document is a plan in Terraform's output format."""
    return (
        isinstance(value, dict)
        and "format_version" in value
        and ("resource_changes" in value or "planned_values" in value)
    )


def plan_config(value: LocatedDict, path: str, text: str) -> TerraformConfig:
    """Return a plan as a configuration.

    Args:
        value: The decoded plan.
        path: File it was read from.
        text: Its text, to find lines in pretty-printed plans.

    Raises:
        InputError: A change is no object: Terraform has not written this.
    """
    for index, item in enumerate(_list(value.get("resource_changes"))):
        if not isinstance(item, dict):
            raise InputError(f"{path}: no plan of Terraform's: resource_changes[{index}] is no object")
    lines = _AddressLines(text)
    variables = {
        name: _variable(name, item, path) for name, item in _items(value.get("variables")) if isinstance(item, dict)
    }
    blocks = [_change(item, path, lines) for item in _list(value.get("resource_changes"))]
    configuration = dig(value, "configuration", "root_module")
    blocks.extend(_module_calls(configuration, "", path, variables, lines))
    return TerraformConfig(root=path, blocks=blocks, variables=variables, is_plan=True)


class _AddressLines:
    """Finds the line of a resource's address, in plans that somebody has formatted."""

    def __init__(self, text: str) -> None:
        self._lines: dict[str, int] = {}
        if text.count("\n") > 10:
            for number, line in enumerate(text.splitlines(), 1):
                key, _, rest = line.strip().partition('": "')
                if key == '"address':
                    # resource_changes comes after planned_values: the last one is the change.
                    self._lines[rest.rstrip(",").removesuffix('"').replace('\\"', '"')] = number

    def line(self, address: str) -> int:
        return self._lines.get(address, 1)


def _change(item: dict[str, Any], path: str, lines: _AddressLines) -> TerraformBlock:
    address = str(item.get("address", ""))
    change = item.get("change") if isinstance(item.get("change"), dict) else {}
    assert isinstance(change, dict)
    actions = [str(action) for action in _list(change.get("actions"))]
    state = "before" if actions == ["delete"] else "after"
    line = lines.line(address)
    body = _with_unknown(
        change.get(state), change.get("after_unknown") if state == "after" else None, change.get(f"{state}_sensitive"),
        address, line,
    )  # fmt: skip
    if not isinstance(body, LocatedDict):
        body = LocatedDict(line)
    body.path = path
    body["change_actions"] = actions
    return TerraformBlock(
        kind="resource" if item.get("mode", "managed") == "managed" else "data",
        type=str(item.get("type", "")),
        name=str(item.get("name", "")),
        address=address,
        body=body,
        path=path,
        module=str(item.get("module_address", "")),
    )


def _with_unknown(value: Any, unknown: Any, sensitive: Any, ref: str, line: int) -> Any:
    """Lay the plan's marks of unknown and sensitive values over its values."""
    if sensitive is True:
        return Unresolved(f"{ref} is sensitive", ref)
    if unknown is True:
        return Unresolved(f"{ref} is known after apply", ref)
    if isinstance(value, dict) or isinstance(unknown, dict):
        result = LocatedDict(line)
        marks = unknown if isinstance(unknown, dict) else {}
        secrets = sensitive if isinstance(sensitive, dict) else {}
        values = value if isinstance(value, dict) else {}
        for key in [*values, *(key for key in marks if key not in values)]:
            result[key] = _with_unknown(values.get(key), marks.get(key), secrets.get(key), f"{ref}.{key}", line)
        return result
    if isinstance(value, list):
        items = LocatedList(line)
        for index, item in enumerate(value):
            mark = dig(unknown, index) if isinstance(unknown, list) else None
            secret = dig(sensitive, index) if isinstance(sensitive, list) else None
            items.append(_with_unknown(item, None if mark is ABSENT else mark, secret, f"{ref}[{index}]", line))
            items.item_lines.append(line)
        return items
    return value


def _variable(name: str, item: dict[str, Any], path: str) -> VariableValue:
    body = LocatedDict(1, 1, path)
    block = TerraformBlock(kind="variable", type="", name=name, address=f"variable.{name}", body=body, path=path)
    return VariableValue(name=name, value=item.get("value"), source=path, place=Place(path, 1), declaration=block)


def _module_calls(
    module: Any, prefix: str, path: str, variables: dict[str, VariableValue], lines: _AddressLines
) -> Iterator[TerraformBlock]:
    """Yield the module calls of the plan's configuration, with the arguments that are constants or root variables."""
    calls = module.get("module_calls") if isinstance(module, dict) else None
    for name, call in _items(calls):
        if not isinstance(call, dict):
            continue
        address = f"{prefix}module.{name}"
        body = LocatedDict(lines.line(address), 0, path)
        source = str(call.get("source", "")).removeprefix("registry.terraform.io/")
        body["source"] = source
        if call.get("version_constraint"):
            body["version"] = call["version_constraint"]
        for argument, expression in _items(call.get("expressions")):
            body[argument] = _expression(expression, variables if not prefix else {}, f"{address}.{argument}")
        yield TerraformBlock(
            kind="module", type=source, name=name, address=address, body=body, path=path, module=prefix.rstrip(".")
        )
        yield from _module_calls(call.get("module"), f"{address}.", path, variables, lines)


def _expression(expression: Any, variables: dict[str, VariableValue], ref: str) -> Any:
    if isinstance(expression, dict):
        if "constant_value" in expression:
            return expression["constant_value"]
        references = _list(expression.get("references"))
        if len(references) == 1 and str(references[0]).startswith("var."):
            variable = variables.get(str(references[0]).removeprefix("var."))
            if variable is not None:
                return variable.value
    return Unresolved("a plan does not say what this argument of a module evaluates to", ref)


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
