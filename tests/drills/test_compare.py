"""Rows of expected against measured, from values alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.diagnosis import WENT_QUIET
from firstfault.drills.compare import _row, recovery
from firstfault.drills.diagnose import lowest_stop
from firstfault.drills.scenario import Expectation, find_scenario
from firstfault.model import Ladder, LadderGroup, TriageReport
from firstfault.model.drill import Phase, RankResult

MEASURED = {
    "probes": {"webhook-1": "dropped", "webhook-2": "dropped", "dns": "open"},
    "firewall": {"node": {"ingress": 4}},
    "ladder": {"stopped_at": None},
    "nccl": {"lines": 0},
}
CONTEXT = {"backend": "gloo", "launcher": "direct", "world": "local"}


def row(**fields):
    return _row(Expectation(item="i", **fields), MEASURED, CONTEXT, "scenario")


@pytest.mark.parametrize(
    ("fields", "match", "measured"),
    [
        ({"measure": "firewall.node.ingress", "equals": 4}, "yes", "4"),
        ({"measure": "firewall.node.ingress", "equals": 5}, "no", "4"),
        ({"measure": "firewall.*.ingress", "equals": 4}, "yes", "4"),
        ({"measure": "probes.webhook-*", "equals": "dropped"}, "yes", "2 of 2 dropped"),
        ({"measure": "probes.*", "equals": "dropped"}, "no", "webhook-1 dropped, webhook-2 dropped, dns open"),
        ({"measure": "probes.webhook-*", "partial": "dropped", "note": "n"}, "partial", "2 of 2 dropped"),
        ({"measure": "ladder.stopped_at", "equals": "store"}, "unverified", "not measured"),
        ({"measure": "nothing.here", "equals": 1}, "unverified", "not measured"),
        ({"measure": "nccl.lines", "at_least": 1}, "no", "0"),
        ({"measure": "nccl.lines", "at_most": 0}, "yes", "0"),
        ({"measure": "nccl.lines", "at_least": 1, "only": {"backend": "nccl"}}, "n/a", "-"),
        ({"measure": "firewall.node.ingress", "any_of": [3, 4]}, "yes", "4"),
    ],
)
def test_row(fields, match, measured):
    """Each kind of comparison gives its match and shows what was measured."""
    found = row(**fields)
    assert (found.match, found.measured) == (match, measured)


def test_condition_that_does_not_hold_says_why():
    """A row that does not apply has a reason."""
    found = row(measure="nccl.lines", at_least=1, only={"backend": "nccl"})
    assert "nccl" in found.note


def phase(name, **fields):
    rank = RankResult(rank=0, host="h", exit_code=0, sums=[3.0], seconds=1)
    given = {"firewall": {"node": {"ingress": 10}}, "ranks": [rank], "probes": [], **fields}
    return Phase(name=name, started="", seconds=1, **given)


def table(after, **fields):
    given = {"same_configuration": True, "logs": (Path("/nonexistent"),) * 2, "backend": "gloo", "prints_sums": True}
    return {row.item: row.match for row in recovery(phase("baseline"), after, **{**given, **fields})}


def test_recovery_is_complete_when_all_is_equal():
    """Nothing differs: every row matches or does not apply."""
    assert set(table(phase("restored")).values()) <= {"yes", "n/a"}


@pytest.mark.parametrize(
    ("fields", "item"),
    [
        ({"firewall": {"node": {"ingress": 9}}}, "node SG ingress rules"),
        ({"ranks": [RankResult(rank=0, host="h", exit_code=1, sums=[3.0], seconds=1)]}, "ranks"),
        ({"ranks": [RankResult(rank=0, host="h", exit_code=0, sums=[4.0], seconds=1)]}, "sums of every iteration"),
    ],
)
def test_each_difference_shows_in_its_row(fields, item):
    """A missing rule, a failed rank or another sum is a row that does not match."""
    found = table(phase("restored", **fields))
    assert [name for name, match in found.items() if match == "no"] == [item]


def test_other_rules_with_the_same_count_are_not_restored():
    """Ten rules are not enough: they must be the same ten."""
    assert table(phase("restored"), same_configuration=False)["every rule as before"] == "no"


def test_phase_that_was_not_reached_matches_nothing():
    """An interrupted drill claims no recovery."""
    assert table(None)["ranks"] == "no"


@pytest.mark.parametrize(
    ("groups", "stop"),
    [
        ([("process", "accelerator", WENT_QUIET), ("store", "mesh", "gloo cannot connect")], "mesh"),
        ([("process", "accelerator", WENT_QUIET), ("store", "mesh", WENT_QUIET)], "accelerator"),
        ([("store", "mesh", "gloo cannot connect"), ("name", "store", "1/2 joined")], "store"),
        ([("finished", None, "the program ended well")], None),
    ],
)
def test_first_stop_is_of_a_rank_that_says_why(groups, stop):
    """Of a rank that went quiet only a lower bound is known: it counts when nobody says more."""
    ladder = Ladder(
        rungs=["process", "accelerator", "name", "store", "mesh", "finished"],
        groups=[
            LadderGroup(ranks=[[rank, rank]], reached=reached, stopped_at=stopped, why=why)
            for rank, (reached, stopped, why) in enumerate(groups)
        ],
    )
    assert lowest_stop(TriageReport(status="fault", verdict=None, ladder=ladder, sources=[])) == stop


def test_expectations_by_launcher_and_backend():
    """The most specific key counts; a launcher changes the cause, too."""
    scenario = find_scenario("narrow-port-range")
    assert scenario.expected_stop("direct", "gloo") == "mesh"
    assert scenario.expected_stop("direct", "nccl") == ""
    assert scenario.expected_stop("torchrun", "gloo") == "store"
    assert scenario.expected_cause("gloo", "direct") == "network.gloo.unreachable"
    assert scenario.expected_cause("nccl", "direct") == "network.nccl.bootstrap-unreachable"
    assert scenario.expected_cause("gloo", "torchrun") == "network.c10d.unreachable"
