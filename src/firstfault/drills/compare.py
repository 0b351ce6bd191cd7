"""Expected against measured: scenario rows, predictions, and the recovery table. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from firstfault.drills.diagnose import lowest_stop, nccl_lines
from firstfault.drills.scenario import Expectation, Scenario
from firstfault.model.drill import Change, Phase, Row

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.model import TriageReport

__all__ = ["MEASURED_BY_RUNNING", "compare", "facts", "recovery"]

Match = Literal["yes", "no", "partial", "unverified", "n/a"]
_NOT_MEASURED = "not measured"
_PATHS, _SUMS, _RANKS, _NCCL = (
    "open paths",
    "sums of every iteration",
    "ranks",
    "NCCL Init COMPLETE and Connected all rings",
)
MEASURED_BY_RUNNING = frozenset({_PATHS, _SUMS, _RANKS, _NCCL})
"""Items of the recovery table that a machine too busy for its job can spoil; the others read configuration back."""


def facts(phase: Phase, change: Change, report: TriageReport | None, logs: Path) -> dict[str, Any]:
    """Return what was measured while the fault acted, as the tree that `measure` paths walk."""
    verdict = report.verdict if report else None
    return {
        "change": {"summary": change.summary, "rules": len(change.rules)},
        "firewall": phase.firewall,
        "refused": phase.refused,
        "probes": {probe.id: probe.result for probe in phase.probes},
        "ranks": {
            "outcome": _outcome(phase),
            "exit_codes": [rank.exit_code for rank in phase.ranks],
            "sums": {str(rank.rank): " ".join(f"{value:g}" for value in rank.sums) for rank in phase.ranks},
        },
        "job": {"seconds": max((rank.seconds for rank in phase.ranks), default=None)},
        "iteration": {"seconds": None, "slowdown": None},
        "status": report.status if report else None,
        "verdict": {
            "cause": verdict.cause if verdict else None,
            "layer": verdict.layer if verdict else None,
            "confidence": verdict.confidence if verdict else None,
        },
        "ladder": {"stopped_at": lowest_stop(report) if report else None},
        "nccl": {"lines": nccl_lines(logs)},
    }


def _outcome(phase: Phase) -> str:
    codes = [rank.exit_code for rank in phase.ranks]
    if not codes:
        return _NOT_MEASURED
    if all(code == 0 for code in codes):
        return "all succeeded"
    if None in codes:
        return "all hung" if not any(code is not None for code in codes) else "some hung"
    return "all failed" if 0 not in codes else "some failed"


def compare(scenario: Scenario, measured: Mapping[str, Any], context: Mapping[str, str]) -> list[Row]:
    """Return the rows of expected against measured.

    Args:
        scenario: What was expected, and what a person would have guessed.
        measured: The tree of `facts`.
        context: `backend`, `launcher` and `world` of this run, for conditions.
    """
    rows = [_cause_row(scenario, measured, scenario.expected_cause(context["backend"], context["launcher"]))]
    if stop := scenario.expected_stop(context["launcher"], context["backend"]):
        wanted = Expectation(item="the first rank stops at", measure="ladder.stopped_at", equals=stop)
        rows.append(_row(wanted, measured, context, "scenario"))
    rows += [_row(wanted, measured, context, "scenario") for wanted in scenario.expect]
    rows += [_row(wanted, measured, context, "prediction") for wanted in scenario.predict]
    return rows


def _cause_row(scenario: Scenario, measured: Mapping[str, Any], cause: str) -> Row:
    found = measured["verdict"]["cause"] or measured["status"] or _NOT_MEASURED
    expected = "healthy" if cause == "none" else cause
    match: Match = "yes" if found in {expected, *scenario.also} else "no"
    return Row(item="verdict from the logs alone", basis="scenario", expected=expected, measured=found, match=match)


def _lookup(tree: Any, path: str) -> dict[str, Any]:
    """Return the values at a path, by their last key; `*` in a part stands for any characters."""
    level = {"": tree}
    for part in path.split("."):
        level = {
            key: value
            for branch in level.values()
            if isinstance(branch, Mapping)
            for key, value in branch.items()
            if fnmatchcase(str(key), part)
        }
    return level


def _show(value: Any) -> str:
    return _NOT_MEASURED if value is None else str(value)


def _row(
    wanted: Expectation,
    measured: Mapping[str, Any],
    context: Mapping[str, str],
    basis: Literal["scenario", "prediction"],
) -> Row:
    expected = wanted.expected or _worded(wanted)
    if any(context.get(name) != value for name, value in wanted.only.items()):
        why = wanted.otherwise or "only with " + ", ".join(f"{k} {v}" for k, v in wanted.only.items())
        return Row(item=wanted.item, basis=basis, expected=expected, measured="-", match="n/a", note=why)
    values = _lookup(measured, wanted.measure)
    found = list(values.values())
    if not found or all(value is None for value in found):
        return Row(item=wanted.item, basis=basis, expected=expected, measured=_NOT_MEASURED, match="unverified")
    shown = _show(found[0]) if all(value == found[0] for value in found) else _listed(values)
    if len(found) > 1 and all(value == found[0] for value in found):
        shown = f"{len(found)} of {len(found)} {shown}"
    match: Match = "yes" if all(_fits(wanted, value) for value in found) else "no"
    note = ""
    if match == "no" and wanted.partial is not None and all(value == wanted.partial for value in found):
        match, note = "partial", wanted.note
    return Row(item=wanted.item, basis=basis, expected=expected, measured=shown, match=match, note=note)


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {_show(value)}" for key, value in values.items())


def _fits(wanted: Expectation, value: Any) -> bool:
    if wanted.equals is not None and value != wanted.equals:
        return False
    if wanted.any_of and value not in wanted.any_of:
        return False
    if wanted.at_least is not None and not (isinstance(value, int | float) and value >= wanted.at_least):
        return False
    if wanted.at_most is not None and not (isinstance(value, int | float) and value <= wanted.at_most):
        return False
    asked = wanted.equals is not None or wanted.any_of or wanted.at_least is not None or wanted.at_most is not None
    return bool(asked)


def _worded(wanted: Expectation) -> str:
    if wanted.equals is not None:
        return str(wanted.equals)
    if wanted.any_of:
        return " or ".join(map(str, wanted.any_of))
    if wanted.at_least is not None:
        return f"at least {wanted.at_least:g}"
    return f"at most {wanted.at_most:g}" if wanted.at_most is not None else ""


def recovery(
    before: Phase,
    after: Phase | None,
    *,
    same_configuration: bool,
    logs: tuple[Path, Path],
    backend: str,
    prints_sums: bool,
) -> list[Row]:
    """Return the table that says whether the restored state equals the baseline.

    Args:
        before: The baseline.
        after: The restored phase; None when it was not reached.
        same_configuration: The rules that the kernel has are the same ones.
        logs: Log folders of both phases.
        backend: Backend of the job.
        prints_sums: Whether the program prints sums that can be compared.
    """

    def row(item: str, expected: Any, measured: Any) -> Row:
        match: Match = "yes" if expected == measured else "no"
        shown = _show(measured)
        return Row(item=item, basis="scenario", expected=str(expected), measured=shown, match=match)

    rows = []
    for group, sides in before.firewall.items():
        for side, count in sides.items():
            rows.append(row(f"{group} SG {side} rules", count, after and after.firewall.get(group, {}).get(side)))
    rows.append(row("every rule as before", "yes", "yes" if same_configuration else "no"))
    rows.append(row(_PATHS, _open(before), after and _open(after)))
    if prints_sums:
        rows.append(row(_SUMS, _sums(before.ranks), after and _sums(after.ranks)))
    rows.append(row(_RANKS, _outcome(before), after and _outcome(after)))
    rows.append(_nccl_row(logs, backend, reached=after is not None))
    return rows


def _open(phase: Phase) -> str:
    return f"{sum(probe.reachable for probe in phase.probes)} of {len(phase.probes)}"


def _sums(ranks: Sequence[Any]) -> str:
    shown = {" ".join(f"{value:g}" for value in rank.sums) or "none" for rank in ranks}
    return shown.pop() if len(shown) == 1 else "; ".join(sorted(shown))


def _nccl_row(logs: tuple[Path, Path], backend: str, *, reached: bool) -> Row:
    if backend != "nccl":
        return Row(
            item=_NCCL,
            basis="scenario",
            expected="-",
            measured="-",
            match="n/a",
            note=f"backend {backend}: no NCCL here",
        )
    before, after = (_nccl_ready(folder) for folder in logs)
    after = after if reached else _NOT_MEASURED
    return Row(item=_NCCL, basis="scenario", expected=before, measured=after, match="yes" if before == after else "no")


def _nccl_ready(folder: Path) -> str:
    text = b"".join(path.read_bytes() for path in folder.glob("*.log"))
    return " and ".join("yes" if words in text else "no" for words in (b"Init COMPLETE", b"Connected all rings"))
