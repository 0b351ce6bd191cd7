"""Finds the checks: one folder each under `rules/`, with check.yaml, check.py, fixtures and their expected results.

Nothing is registered anywhere: a folder is a check. `tests/checks/test_registry.py` holds each to its promises.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome
from firstfault.errors import InputError, UsageError
from firstfault.model.audit import Severity

__all__ = ["RULES_DIR", "Check", "CheckInfo", "Naive", "find_check", "load_checks"]

RULES_DIR = Path(__file__).parent / "rules"


class Naive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text search that somebody would try instead of this check; it must misjudge at least one fixture.

    Attributes:
        pattern: Regular expression, searched in all files of a fixture (multi-line mode).
        found_means: What the search would conclude where the pattern is found; it concludes the opposite elsewhere.
    """

    pattern: str
    found_means: Literal["good", "bad"]


class CheckInfo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """check.yaml.

    Attributes:
        id: The folder's name with dashes; what it finds, not what it wishes ("service-links-enabled").
        title: The hole, in one line, as a finding's headline.
        layer: infra · driver · network · workload · observability.
        severity: critical: stops training or serving, or lets it be stopped by one unnoticed change · high: delays
            noticing or recovery by hours · medium: by minutes, or under conditions · low: hygiene that an incident
            makes expensive.
        why: What happens when the hole is open; one short paragraph.
        trap: What makes it subtle: what a text search or a reviewer gets wrong.
        prevents: Cause ids that it would have prevented or made visible.
        checklist: Items of the checklist ("B1"), "A3" for the toggle; empty for checks beyond it.
        reads: The kinds of input that it judges.
        fix: The change that closes the hole, as an instruction.
        naive: See `Naive`; None where no search comes near.
        references: Documents, sources and issue threads.
    """

    id: str
    title: str
    layer: Literal["infra", "driver", "network", "workload", "observability"]
    severity: Severity
    why: str
    trap: str
    prevents: list[str]
    checklist: list[str]
    reads: list[Literal["terraform", "plan", "kubernetes", "prometheus", "iam", "ci", "other"]]
    fix: str
    references: list[str]
    naive: Naive | None = None


class Check(msgspec.Struct, frozen=True):
    """One check: what is known about it, and where its folder is."""

    info: CheckInfo
    folder: Path

    @property
    def function(self) -> Callable[[Inventory], Iterator[Outcome]]:
        """`check` of check.py, imported on first use."""
        module = importlib.import_module(f"firstfault.checks.rules.{self.folder.name}.check")
        function: Callable[[Inventory], Iterator[Outcome]] = module.check
        return function

    def example(self, kind: Literal["good", "bad"]) -> list[tuple[str, str]]:
        """Return (name, text) of the files of the shortest fixture of a kind; JSON only where there is nothing else."""

        def order(case: Path) -> tuple[bool, int]:
            files = _files(case)
            return all(file.suffix == ".json" for file in files), sum(file.stat().st_size for file in files)

        folder = self.folder / kind
        case = min(sorted(folder.iterdir()), key=order)
        texts = [(file.relative_to(folder).as_posix(), file.read_text("utf-8")) for file in _files(case)]
        return [(name, text) for name, text in texts if text]


def _files(case: Path) -> list[Path]:
    return [case] if case.is_file() else sorted(file for file in case.rglob("*") if file.is_file())


@cache
def load_checks() -> dict[str, Check]:
    """Return all checks by id, sorted by id.

    Raises:
        InputError: A check.yaml is not valid.
    """
    checks = {}
    for path in sorted(RULES_DIR.glob("*/check.yaml")):
        try:
            info = msgspec.convert(yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader), CheckInfo)
        except (yaml.YAMLError, msgspec.ValidationError) as error:
            raise InputError(f"{path}: not a check: {error}") from error
        checks[info.id] = Check(info, path.parent)
    return dict(sorted(checks.items()))


def find_check(check_id: str) -> Check:
    """Return one check.

    Raises:
        UsageError: There is none of that id.
    """
    checks = load_checks()
    if check_id in checks:
        return checks[check_id]
    near = [known for known in checks if check_id in known or known in check_id]
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise UsageError(f"no check is called {check_id!r}", f"{hint}list them with `firstfault audit --list-checks`")
