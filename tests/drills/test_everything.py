"""Running all drills: what is run again alone, and what is not."""

from __future__ import annotations

import json

import msgspec
import pytest

from firstfault.drills import Options, everything
from firstfault.model.drill import Change, DrillReport, Row
from firstfault.report.drill import render_scoreboard


def report(drill, *, expected=(), recovery=(), left=()):
    """A result whose rows are given as (item, expected, measured)."""

    def rows(given):
        return [
            Row(item=item, basis="scenario", expected=wanted, measured=found, match="yes" if wanted == found else "no")
            for item, wanted, found in given
        ]

    expected, recovery = rows(expected or [("verdict", "a", "a")]), rows(recovery)
    return DrillReport(
        drill=drill, title="", world="local", backend="gloo", launcher="direct", started="", seconds=1, change=Change(),
        phases=[], status="fault", verdict=None, ladder=None, transport=None, expected_vs_measured=expected,
        recovery=recovery, detection=[], as_expected=all(row.match == "yes" for row in expected),
        restored=not left and all(row.match == "yes" for row in recovery), left_behind=list(left), journal="", logs="",
    )  # fmt: skip


@pytest.fixture
def run_all(monkeypatch):
    """Run all drills, where given drills give given reports, one after the other, and the rest go well."""

    def run(given, **choices):
        calls = []

        def one(_, name):
            calls.append(name)
            again = calls.count(name) - 1
            return given[name][again] if name in given else report(name)

        monkeypatch.setattr(everything._Children, "run", one)
        return everything.run_everything(Options(backend="gloo"), **choices), calls

    return run


def test_drill_spoiled_beside_the_others_runs_again_alone(run_all):
    """The second result counts, and what had been wrong is told."""
    bad = report("sg-block", recovery=[("open paths", "4 of 4", "3 of 4")])
    found, calls = run_all({"sg-block": [bad, report("sg-block")]})
    assert calls.count("sg-block") == 2
    assert calls[-1] == "sg-block"
    assert len(calls) == len(set(calls)) + 1
    assert all(each.restored for each in found.reports)
    assert [each.drill for each in found.reports].count("sg-block") == 1
    assert found.repeated == [("sg-block", "open paths: 3 of 4 instead of 4 of 4")]
    text = render_scoreboard(found.reports, "text", found.left_out, found.repeated)
    assert "run again alone: sg-block (beside the others: open paths: 3 of 4 instead of 4 of 4)" in " ".join(
        text.split()
    )
    board = json.loads(render_scoreboard(found.reports, "json", found.left_out, found.repeated))
    assert board["repeated"] == [{"drill": "sg-block", "why": "open paths: 3 of 4 instead of 4 of 4"}]


def test_drill_that_fails_alone_too_has_failed(run_all):
    """It is not run a third time."""
    bad = report("sg-block", expected=[("verdict from the logs alone", "network.c10d.unreachable", "healthy")])
    found, calls = run_all({"sg-block": [bad, bad]})
    assert calls.count("sg-block") == 2
    assert bad in found.reports


@pytest.mark.parametrize(
    "bad",
    [
        report("sg-block", recovery=[("open paths", "4 of 4", "3 of 4")], left=["a process"]),
        report("sg-block", recovery=[("every rule as before", "yes", "no")]),
    ],
    ids=["left behind", "rules"],
)
def test_what_a_busy_machine_does_not_explain_is_not_tried_again(run_all, bad):
    """A second run must not hide that the first one left something or did not put rules back."""
    found, calls = run_all({"sg-block": [bad]})
    assert calls.count("sg-block") == 1
    assert bad in found.reports
    assert found.repeated == []


def test_drills_one_at_a_time_are_run_once(run_all):
    """There were no others whose load could explain anything."""
    bad = report("sg-block", recovery=[("open paths", "4 of 4", "3 of 4")])
    found, calls = run_all({"sg-block": [bad]}, at_once=1)
    assert calls.count("sg-block") == 1
    assert found.repeated == []


def test_second_run_without_a_report_is_no_success(run_all):
    """The first report does not stand in for it."""
    bad = report("sg-block", recovery=[("ranks", "all succeeded", "some failed")])
    found, _ = run_all({"sg-block": [bad, everything.LeftOut("sg-block", "ended without a report", failed=True)]})
    assert "sg-block" not in {each.drill for each in found.reports}
    assert msgspec.to_builtins([each for each in found.left_out if each.failed])[0][0] == "sg-block"
