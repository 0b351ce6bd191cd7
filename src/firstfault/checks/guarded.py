"""Runs one check so that what it does not foresee in one file ends neither the audit nor what it says of the others."""

from __future__ import annotations

from firstfault.checks.inventory import Inventory
from firstfault.checks.load import inventory_of_texts
from firstfault.checks.outcome import Outcome
from firstfault.checks.registry import Check
from firstfault.model.audit import ReadProblem

__all__ = ["run_guarded"]

_ALONE_LIMIT = 2_000


def run_guarded(check: Check, inventory: Inventory) -> list[Outcome]:
    """Return the outcomes of a check; a failure of its code is reported among the problems of the inventory.

    After a failure the files are tried one by one, and the check runs once more over those that it copes with.
    """
    outcomes, error = _run(check, inventory)
    if error is None:
        return outcomes
    failing = {path: why for path in list(inventory.texts)[:_ALONE_LIMIT] if (why := _alone(check, inventory, path))}
    for path, why in failing.items():
        _report(inventory, check, path, why)
    if failing:
        rest = {path: text for path, text in inventory.texts.items() if path not in failing}
        key = "\0".join(["without", *failing])
        others = inventory.memo(key, lambda: inventory_of_texts(rest, complete=inventory.complete))
        outcomes, error = _run(check, others)
    if error is not None:
        _report(inventory, check, next(iter(inventory.texts), "-"), error)
    return outcomes


def _run(check: Check, inventory: Inventory) -> tuple[list[Outcome], str | None]:
    """Return what the check said before it ended, and what ended it."""
    outcomes: list[Outcome] = []
    try:
        outcomes.extend(check.function(inventory))
    except Exception as error:  # noqa: BLE001 - the edge of a check: its defect must not take the audit with it
        return outcomes, f"{type(error).__name__}: {error}"
    return outcomes, None


def _alone(check: Check, inventory: Inventory, path: str) -> str | None:
    """Say how the check fails on a file by itself; None when it does not."""
    single = inventory.memo(f"alone\0{path}", lambda: inventory_of_texts({path: inventory.texts[path]}))
    return _run(check, single)[1]


def _report(inventory: Inventory, check: Check, path: str, why: str) -> None:
    message = f"{path}: check {check.info.id} could not judge it, by a defect of firstfault: {why}"
    problem = ReadProblem(path=path, line=1, message=message)
    if problem not in inventory.problems:
        inventory.problems.append(problem)
