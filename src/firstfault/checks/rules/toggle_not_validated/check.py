"""The variable behind the recommended-rules toggle must refuse false."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.terraform.eks import EksModule, eks_modules
from firstfault.checks.terraform.model import VariableValue
from firstfault.checks.terraform.tracing import condition_holds, variable_behind

_TOGGLE = "node_security_group_enable_recommended_rules"


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the variable behind the toggle of every call of the EKS module."""
    for eks in eks_modules(inventory):
        variable = variable_behind(eks.config, eks.block, _TOGGLE)
        if variable is not None and not eks.config.is_plan:
            yield _judge(eks, variable)


def _judge(eks: EksModule, variable: VariableValue) -> Outcome:
    declaration = variable.declaration
    validations = declaration.get("validation")
    subject = f"{eks.config.root}/var.{variable.name}".removeprefix("./")
    values = {name: item.value for name, item in eks.config.variables.items()} | {variable.name: False}
    answers = [
        condition_holds(str(item.get("condition", "")), values)
        for item in (validations if isinstance(validations, list) else [])
    ]
    place = declaration.place("validation")
    if False in answers:
        return passed(place, subject)
    why = next((answer.reason for answer in answers if isinstance(answer, Unresolved)), "")
    if why:
        return unknown(place, subject, f"whether the validation refuses false cannot be told: {why}")
    how = "its validation accepts false" if answers else "it has no validation"
    return failed(place, subject, f"{variable.name} decides over the rules that training needs, and {how}")
