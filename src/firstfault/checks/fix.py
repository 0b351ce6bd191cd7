"""Applies the edits that checks offer, and keeps only those after which the audit is better in every respect."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Mapping

import msgspec

from firstfault.checks.edits import AddArgument, Edit, SetArgument, SetYaml
from firstfault.checks.engine import run_outcomes
from firstfault.checks.inventory import Inventory
from firstfault.checks.load import inventory_of_texts
from firstfault.checks.registry import load_checks
from firstfault.checks.yaml_edit import set_yaml
from firstfault.errors import InputError
from firstfault.model.audit import AuditReport, Finding

__all__ = ["FixPlan", "apply_edit", "plan_fixes"]

_PAIRS = (("{", "}"), ("[", "]"), ("(", ")"))
_ARGUMENT = r"^(?P<before>\s*\"?{name}\"?\s*[=:]\s*)(?P<value>[^#\n]*?)(?P<after>\s*,?\s*(?:#.*|//.*)?)$"


class FixPlan(msgspec.Struct, frozen=True):
    """What `--fix` would do.

    Attributes:
        texts: New text of each file that changes, by path.
        diff: Unified diff over all of them.
        fixed: Findings that are gone afterwards.
        refused: Findings whose edit did not make things better, with the reason.
    """

    texts: dict[str, str]
    diff: str
    fixed: list[Finding]
    refused: list[tuple[Finding, str]]


def plan_fixes(report: AuditReport, inventory: Inventory) -> FixPlan:
    """Try the edits of every open finding on a copy of the texts; nothing is written.

    Edits are kept only when a new audit of the changed texts lacks their findings and has no new ones: all of them
    together where that holds, else as many as can be added one after the other.
    """
    wanted = {item.fingerprint for item in report.findings if item.result == "fail" and not item.suppressed}
    names = sorted({item.check for item in report.findings if item.fingerprint in wanted})
    offers = [
        (finding, edits)
        for finding, edits in run_outcomes(inventory, [load_checks()[name] for name in names])
        if edits and finding.fingerprint in wanted
    ]
    before = _counted(inventory)
    trial = _Trial(inventory, before)
    refused: list[tuple[Finding, str]] = []
    if trial.add(offers):
        for offer in offers:
            why = trial.add([offer])
            if why:
                refused.append((offer[0], why))
    new = {path: text for path, text in trial.texts.items() if text != inventory.texts[path]}
    return FixPlan(new, _diff(inventory.texts, new), [finding for finding, _ in trial.kept], refused)


class _Trial:
    """Edits that were found good so far, always applied together to the original texts."""

    def __init__(self, inventory: Inventory, before: Counter[tuple[str, str, str]]) -> None:
        self._inventory = inventory
        self._before = before
        self.kept: list[tuple[Finding, list[Edit]]] = []
        self.texts = dict(inventory.texts)

    def add(self, offers: list[tuple[Finding, list[Edit]]]) -> str:
        """Keep the offers too, or return why not."""
        candidate = [*self.kept, *offers]
        try:
            texts = _applied(self._inventory.texts, [edit for _, edits in candidate for edit in edits])
        except InputError as error:
            return str(error)
        after = _counted(inventory_of_texts(texts, complete=self._inventory.complete))
        still_open = any(after[_key(finding)] >= self._before[_key(finding)] for finding, _ in candidate)
        if still_open or after - self._before:
            return "the change would not close the finding, or would open another one"
        self.kept, self.texts = candidate, texts
        return ""


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.check, finding.path, finding.subject


def _counted(inventory: Inventory) -> Counter[tuple[str, str, str]]:
    """Count open findings of all checks, and unreadable passages, by what they are about."""
    counts = Counter(
        _key(finding)
        for finding, _ in run_outcomes(inventory, list(load_checks().values()))
        if finding.result != "pass"
    )
    counts.update(("unreadable", problem.path, "") for problem in inventory.problems)
    return counts


def _applied(texts: Mapping[str, str], edits: list[Edit]) -> dict[str, str]:
    result = dict(texts)
    # From the bottom up, so that the lines of the edits above stay right.
    for edit in sorted(edits, key=lambda item: item.line, reverse=True):
        if edit.path not in result:
            raise InputError(f"{edit.path} is not among the audited files")
        result[edit.path] = apply_edit(result[edit.path], edit)
    return result


def apply_edit(text: str, edit: Edit) -> str:
    """Return the text with one edit applied.

    Raises:
        InputError: The place does not look as the edit expects.
    """
    if isinstance(edit, SetYaml):
        return set_yaml(text, edit.line, edit.steps, edit.value)
    lines = text.splitlines(keepends=True)
    if not 1 <= edit.line <= len(lines):
        raise InputError(f"{edit.path} has no line {edit.line}")
    line = lines[edit.line - 1]
    ending = line[len(line.rstrip("\r\n")) :]
    body = line.rstrip("\r\n")
    if isinstance(edit, SetArgument):
        match = re.match(_ARGUMENT.format(name=re.escape(edit.name)), body)
        if match is None or any(match["value"].count(left) != match["value"].count(right) for left, right in _PAIRS):
            raise InputError(f"{edit.path}:{edit.line}: {edit.name} is not written on one line")
        lines[edit.line - 1] = f"{match['before']}{edit.value}{match['after']}{ending}"
    else:
        lines[edit.line - 1] = _with_argument(body, lines, edit) + ending
    return "".join(lines)


def _with_argument(body: str, lines: list[str], edit: AddArgument) -> str:
    """Return the opening line of a block or object with an argument added inside."""
    added = f"{edit.name} = {edit.value}"
    if re.search(r"\{\s*(?:#.*)?$", body):
        following = lines[edit.line] if edit.line < len(lines) else ""
        own = len(body) - len(body.lstrip())
        indent = len(following) - len(following.lstrip()) if following.strip() not in {"", "}"} else own + 2
        return f"{body}\n{' ' * max(indent, own + 2)}{added}"
    empty = re.search(r"\{\s*\}", body)
    if empty:
        return f"{body[: empty.start()]}{{ {added} }}{body[empty.end() :]}"
    inline = re.search(r"=\s*\{", body)
    if inline and body.count("{") == body.count("}"):
        return f"{body[: inline.end()]} {added}, {body[inline.end() :].lstrip()}"
    raise InputError(f"{edit.path}:{edit.line}: no block or object opens here")


def _diff(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    parts: list[str] = []
    for path, text in sorted(after.items()):
        old, new = before[path].splitlines(keepends=True), text.splitlines(keepends=True)
        parts.extend(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"))
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in parts)
