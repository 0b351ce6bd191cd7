"""What a scenario file may have wrong although it has the right shape: names that nothing answers to."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from firstfault.drills.jobs import program_command
from firstfault.drills.scenario import load_scenario
from firstfault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from firstfault.drills.scenario import Expectation, Scenario
    from firstfault.drills.topology import Topology

__all__ = ["MEASURES", "lint_scenario"]

# The first part of every path that `Expectation.measure` may walk, and the keys below it ("*": names of the topology).
MEASURES: dict[str, tuple[str, ...]] = {
    "change": ("summary", "rules"),
    "firewall": ("*",),
    "refused": ("ingress", "egress"),
    "probes": ("*",),
    "ranks": ("outcome", "exit_codes", "sums"),
    "job": ("seconds",),
    "iteration": ("seconds", "slowdown"),
    "status": (),
    "verdict": ("cause", "layer", "confidence"),
    "ladder": ("stopped_at",),
    "nccl": ("lines",),
}


def lint_scenario(path: Path) -> list[str]:
    """Return what is wrong in a scenario file, one sentence each.

    Raises:
        InputError: It cannot be read, or does not have the shape of a scenario.
    """
    scenario = load_scenario(path)
    topology = scenario.find_topology()
    return [*_names(scenario, topology, path), *_measures(scenario, topology)]


def _names(scenario: Scenario, topology: Topology, path: Path) -> Iterator[str]:
    nodes = {node.name for node in topology.nodes}
    if scenario.name != path.stem:
        yield f"name {scenario.name!r} is not the file's name"
    for node in scenario.workload.ranks:
        if node not in nodes:
            yield f"workload.ranks: no node is called {node!r}"
    for probe in topology.probes:
        for node in (probe.source, probe.target):
            if node not in nodes:
                yield f"probe {probe.id}: no node is called {node!r}"
    if scenario.cause != "none" and not re.fullmatch(r"[a-z]+(\.[a-z0-9-]+){2}", scenario.cause):
        yield f"cause {scenario.cause!r} is not a cause id (`firstfault explain` lists them) and not `none`"
    try:
        program_command(scenario.workload, path.resolve().parent)
    except InputError as error:
        yield f"workload.program: {error.what}"


def _measures(scenario: Scenario, topology: Topology) -> Iterator[str]:
    names = {
        "probes": [probe.id for probe in topology.probes],
        "firewall": [group.name for group in topology.groups],
    }
    wanted: list[Expectation] = [*scenario.expect, *scenario.predict]
    for each in wanted:
        first, _, rest = each.measure.partition(".")
        if first not in MEASURES:
            yield f"{each.item}: nothing is measured as {each.measure!r}; there is {', '.join(MEASURES)}"
            continue
        second = rest.partition(".")[0]
        known = names.get(first, MEASURES[first])
        if known and not any(fnmatchcase(name, second) for name in known):
            yield f"{each.item}: {first} has no {second!r}; there is {', '.join(known)}"
        comparisons = (each.equals, each.any_of or None, each.at_least, each.at_most, each.partial)
        if all(comparison is None for comparison in comparisons):
            yield f"{each.item}: nothing to compare with (equals, any_of, at_least, at_most)"
