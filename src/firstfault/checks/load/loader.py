"""Reads every file of an audit into one `Inventory`. One unreadable file never hides the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from firstfault.checks.helm_values import chart_of, is_values_file, render_hint
from firstfault.checks.inventory import Inventory
from firstfault.checks.load.documents import add_document, add_yaml_text, parse_json
from firstfault.checks.load.files import display_path, find_files, read_text
from firstfault.checks.load.remarks import add_remarks
from firstfault.checks.terraform.plan import is_plan, plan_config
from firstfault.checks.terraform.roots import TerraformTree, is_terraform_file
from firstfault.errors import InputError
from firstfault.model.audit import ReadProblem

__all__ = ["inventory_of_texts", "load_inventory"]

_HELM_MARK = "{{"


def load_inventory(paths: list[Path], *, complete: bool = False, exclude: Sequence[str] = ()) -> Inventory:
    """Load files and folders.

    Args:
        paths: What the caller named; "-" is standard input.
        complete: The inputs are everything there is (see `Inventory.complete`).
        exclude: Globs over paths, as they are shown in reports, that are left out.

    Raises:
        UsageError: None of the paths exists.
    """
    inventory = Inventory()
    inventory.complete = complete
    skipped: list[ReadProblem] = []
    for path in find_files(paths, skipped):
        shown = display_path(path)
        if any(fnmatchcase(shown, glob) for glob in exclude):
            continue
        try:
            inventory.texts[shown] = read_text(path)
        except InputError as error:
            inventory.problems.append(ReadProblem(path=shown, line=_line(str(error), shown), message=str(error)))
    inventory.problems.extend(
        problem for problem in skipped if not any(fnmatchcase(problem.path, glob) for glob in exclude)
    )
    _add_texts(inventory)
    return inventory


def inventory_of_texts(texts: Mapping[str, str], *, complete: bool = False) -> Inventory:
    """Load an inventory from texts by path instead of from files: for trying changes before they are written."""
    inventory = Inventory()
    inventory.complete = complete
    inventory.texts.update(texts)
    _add_texts(inventory)
    return inventory


def _add_texts(inventory: Inventory) -> None:
    charts = {Path(shown).parent for shown in inventory.texts if Path(shown).name == "Chart.yaml"}
    for shown, text in inventory.texts.items():
        path = Path(shown)
        if is_terraform_file(path.name) or _is_helm_source(path, text, charts):
            continue
        try:
            _add_file(inventory, path, shown, text)
        except InputError as error:
            inventory.problems.append(ReadProblem(path=shown, line=_line(str(error), shown), message=str(error)))
        except Exception as error:  # noqa: BLE001 - the edge of a file: what we did not foresee in it hides no other
            message = f"{shown}: not read to the end, by a defect of firstfault: {type(error).__name__}: {error}"
            inventory.problems.append(ReadProblem(path=shown, line=1, message=message))
    _add_terraform(inventory)
    add_remarks(inventory)
    for chart in sorted(charts):
        inventory.notes.append(
            f"{chart.as_posix()}: templates of a Helm chart are program text, not manifests; to audit them: "
            f"helm template {chart.as_posix()} | firstfault audit -"
        )
    for document in inventory.documents:
        if is_values_file(document) and Path(document.path).parent not in charts and not chart_of(document, {}):
            inventory.notes.append(
                f"{document.path}: Helm values of a chart that is not known here; {render_hint(document.path)}"
            )


def _add_file(inventory: Inventory, path: Path, shown: str, text: str) -> None:
    if path.suffix == ".json" or (shown == "stdin" and text.lstrip()[:1] == "{"):
        value = parse_json(text, shown)
        if is_plan(value):
            inventory.terraform.append(plan_config(value, shown, text))
        else:
            add_document(inventory, value, shown)
    else:
        add_yaml_text(inventory, text, shown)


def _add_terraform(inventory: Inventory) -> None:
    """Read roots as a whole: a folder's files belong together, and modules are evaluated where they are called."""
    tree = TerraformTree(inventory.texts)
    inventory.terraform.extend(tree.configs())
    inventory.problems.extend(
        ReadProblem(
            path=problem.path,
            line=problem.line,
            message=f"{problem.path}:{problem.line}:{problem.column}: {problem.message}",
        )
        for problem in tree.problems
    )


def _is_helm_source(path: Path, text: str, charts: set[Path]) -> bool:
    """Tell whether a file is a chart's template. Prometheus annotations hold `{{` too, so the folder decides."""
    return _HELM_MARK in text and any(chart / "templates" in path.parents for chart in charts)


def _line(message: str, path: str) -> int:
    number = message.removeprefix(f"{path}:").partition(":")[0]
    return int(number) if number.isdigit() else 1
