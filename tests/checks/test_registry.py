"""Walks every check of the registry: what a check promises must hold.

A fixture case is a file or a folder directly below `good/`, `bad/` or `unknown/` of a check's folder. expected.json
maps each case to the outcomes of its own check, `[result, path within the case, line]`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.checks import load_checks
from firstfault.checks.engine import run_checks
from firstfault.checks.load import load_inventory

CHECKS = load_checks()
WALLS = {"vllm-cache-over-memory", "vllm-context-over-model"}
CASES = [
    (check.info.id, f"{kind}/{case.name}")
    for check in CHECKS.values()
    for kind in ("good", "bad", "unknown")
    for case in sorted((check.folder / kind).glob("*"))
]


def case_path(check_id: str, case: str) -> Path:
    return CHECKS[check_id].folder / case


@cache
def findings_of(check_id: str, case: str):
    """Findings of every check on one case. `complete` where the case's folder says so by a file of that name."""
    path = case_path(check_id, case)
    inventory = load_inventory([path], complete=(path / "COMPLETE").exists())
    assert not inventory.problems, [problem.message for problem in inventory.problems]
    return run_checks(inventory, list(CHECKS.values()))


def relative(path: str, case: Path) -> str:
    return Path(path).name if case.is_file() else Path(path).resolve().relative_to(case.resolve()).as_posix()


@pytest.mark.parametrize("check_id", CHECKS)
def test_check_is_whole(check_id):
    """The folder is named after the id, and holds good and bad fixtures with an expectation for each."""
    check = CHECKS[check_id]
    assert check.folder.name == check_id.replace("-", "_")
    cases = {case for owner, case in CASES if owner == check_id}
    assert any(case.startswith("good/") for case in cases)
    assert any(case.startswith("bad/") for case in cases)
    assert set(json.loads((check.folder / "expected.json").read_text())) == cases
    assert check.info.references or check.info.why
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", check_id)
    for text in (check.info.title, check.info.why, check.info.trap, check.info.fix):
        assert text.strip()


@pytest.mark.parametrize(("check_id", "case"), CASES)
def test_check_judges_its_own_fixtures(check_id, case):
    """On its own cases the check says exactly what expected.json says, at those lines."""
    path = case_path(check_id, case)
    expected = json.loads((CHECKS[check_id].folder / "expected.json").read_text())[case]
    found = [
        [item.result, relative(item.path, path), item.line]
        for item in findings_of(check_id, case)
        if item.check == check_id
    ]
    assert sorted(found) == sorted(expected)
    results = {item[0] for item in found}
    if case.startswith("good/"):
        assert results <= {"pass"}, "a good case passes, or shows that the check does not apply"
    elif case.startswith("bad/"):
        assert "fail" in results
    else:
        assert "unknown" in results
        assert "fail" not in results


@pytest.mark.parametrize(("check_id", "case"), [item for item in CASES if not item[1].startswith("unknown/")])
def test_no_other_check_fails_on_the_fixture(check_id, case):
    """A fixture fails for its own reason only: every other check passes on it or does not apply.

    The walls of vLLM alone say of every server what they would need to be computed; and of Helm values, what only the
    chart's templates decide is unknown.
    """
    others = [
        f"{item.check} {item.result} {item.path}:{item.line} {item.message}"
        for item in findings_of(check_id, case)
        if item.check != check_id
        and item.result != "pass"
        and not (item.result == "unknown" and (item.check in WALLS or "helm-values" in case))
    ]
    assert not others


@pytest.mark.parametrize("check_id", [item for item in CHECKS if CHECKS[item].info.naive])
def test_naive_text_search_misjudges_a_fixture(check_id):
    """The text search that one would try instead is wrong about at least one fixture."""
    naive = CHECKS[check_id].info.naive
    wrong = []
    for owner, case in CASES:
        kind = case.partition("/")[0]
        if owner != check_id or kind == "unknown":
            continue
        path = case_path(check_id, case)
        files = [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())
        found = any(re.search(naive.pattern, file.read_text(), re.MULTILINE) for file in files)
        says = naive.found_means if found else {"good": "bad", "bad": "good"}[naive.found_means]
        if says != kind:
            wrong.append(case)
    assert wrong, "the naive search judges every fixture right: add the fixture that shows the trap"


def test_every_item_of_the_checklist_that_has_a_check_has_a_naive_search_that_fails():
    """For each item B1-B15, at least one check carries a text search that its fixtures refute."""
    items = {item for check in CHECKS.values() for item in check.info.checklist}
    refuted = {item for check in CHECKS.values() if check.info.naive for item in check.info.checklist}
    assert items == refuted


@pytest.mark.parametrize("check_id", CHECKS)
def test_prevented_causes_exist(check_id):
    """Every cause that a check says it prevents is a card of the catalogue, by its own id."""
    known = set(load_catalogue().cards)
    assert set(CHECKS[check_id].info.prevents) <= known


def test_pages_are_up_to_date():
    """docs/checks is what the folders say."""
    tool = Path(__file__).parents[2] / "tools" / "generate-check-pages"
    result = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
