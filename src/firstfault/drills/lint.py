"""What a scenario may have wrong although it has the right shape: names that nothing answers to, impossible numbers."""

from __future__ import annotations

import ipaddress
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, get_args

from firstfault.catalogue import load_catalogue
from firstfault.drills.jobs import Backend, Launcher, program_command
from firstfault.drills.scenario import load_scenario
from firstfault.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from firstfault.drills.injectors import Injector
    from firstfault.drills.scenario import Expectation, Scenario
    from firstfault.drills.topology import Node, Topology

__all__ = ["MEASURES", "lint_scenario", "problems"]

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
_PORTS = {"port", "ports"}
_LAST_PORT, _DAY_S = 65535, 86400
# Fields that all kinds of injections name alike: the least and the most that the kernel, or a day, can take.
_BOUNDS: dict[str, tuple[float, float]] = {
    "mbit_per_s": (0.001, 34359),  # tbf counts bytes per second in 32 bits
    "ms": (0.001, _DAY_S * 1e3),
    "bytes": (1, 1 << 50),
    "headroom_bytes": (1, 1 << 50),
    "delay_s": (0.001, _DAY_S),
    "larger_than": (1, 65535),  # the length of an IP packet has 16 bits
    "percent": (0.001, 100),
}
_HOST_NAME = re.compile(r"(?=.{1,63}$)[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")


def lint_scenario(path: Path) -> list[str]:
    """Return what is wrong in a scenario file, one sentence each.

    Raises:
        InputError: It cannot be read, or does not have the shape of a scenario.
    """
    scenario = load_scenario(path)
    other = [] if scenario.name == path.stem else [f"name {scenario.name!r} is not the file's name"]
    return [*other, *problems(scenario, path.resolve().parent)]


def problems(scenario: Scenario, base: Path) -> list[str]:
    """Return why a scenario could not be run as it is, one sentence each.

    Args:
        scenario: The scenario.
        base: Folder that a relative program path starts from.

    Raises:
        InputError: Its topology is not known.
    """
    topology = scenario.find_topology()
    return [
        *_of_topology(topology),
        *_of_workload(scenario, topology, base),
        *(
            f"injection {number} ({injection.__struct_config__.tag}): {problem}"
            for number, injection in enumerate(scenario.injections, 1)
            for problem in _of_injection(injection, scenario, topology)
        ),
        *_of_measures(scenario, topology),
    ]


def _twice(names: Iterable[str]) -> set[str]:
    seen: set[str] = set()
    return {name for name in names if name in seen or seen.add(name)}  # type: ignore[func-returns-value]


def _of_topology(topology: Topology) -> Iterator[str]:
    nodes = {node.name for node in topology.nodes}
    for what, names in (
        ("nodes", [node.name for node in topology.nodes]),
        ("addresses", [node.ip for node in topology.nodes]),
        ("probes", [probe.id for probe in topology.probes]),
        ("groups", [group.name for group in topology.groups]),
    ):
        yield from (f"topology.{what}: {name!r} is there twice" for name in sorted(_twice(names)))
    for node in topology.nodes:
        yield from (f"node {node.name}: {problem}" for problem in _of_node(node, topology))
    yield from _of_rules(topology)
    for probe in topology.probes:
        ends = (probe.source, probe.target)
        yield from (f"probe {probe.id}: no node is called {node!r}" for node in ends if node not in nodes)
        yield from (f"probe {probe.id}: {problem}" for problem in _of_ports(probe.port))
    for name in {topology.dns_server, *topology.names.values()} - {"", *nodes}:
        yield f"topology DNS: no node is called {name!r}"


def _of_node(node: Node, topology: Topology) -> Iterator[str]:
    groups = {group.name for group in topology.groups}
    if not _is_address(node.address) or "/" not in node.address:
        yield f"{node.address!r} is no IPv4 address with prefix length"
    if not _HOST_NAME.fullmatch(node.hostname):
        yield f"{node.hostname!r} is no host name (letters, digits, dots and dashes; at most 63)"
    yield from (f"no group is called {group!r}" for group in node.groups if group not in groups)
    yield from (f"file {file!r} is no absolute path" for file in node.files if not _is_absolute(file))
    for setting in node.settings:
        if not re.fullmatch(r"net(\.[\w-]+)+", setting):
            yield f"{setting!r} is no network setting (net.…)"


def _of_rules(topology: Topology) -> Iterator[str]:
    sources = {"self", *(group.name for group in topology.groups)}
    sources.update(group for node in topology.nodes for group in node.member_of)
    for group in topology.groups:
        for rule in group.rules:
            where = f"rule {group.name}/{rule.id}"
            if rule.peer not in sources and not _is_address(rule.peer):
                yield f"{where}: peer {rule.peer!r} is no CIDR, no group, and not self"
            yield from (f"{where}: {problem}" for problem in _of_ports(rule.ports))


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Interface(text)
    except ValueError:
        return False
    return True


def _of_ports(ports: Any) -> Iterator[str]:
    if ports is None:
        return
    first, last = ports if isinstance(ports, tuple) else (ports, ports)
    if not 1 <= first <= last <= _LAST_PORT:
        yield f"{first if first == last else f'{first}-{last}'} is no port" + (" range" if first != last else "")


def _of_workload(scenario: Scenario, topology: Topology, base: Path) -> Iterator[str]:
    workload = scenario.workload
    nodes = {node.name for node in topology.nodes}
    if not workload.ranks:
        yield "workload.ranks: a job has at least one rank"
    yield from (f"workload.ranks: no node is called {node!r}" for node in workload.ranks if node not in nodes)
    for rank in {*workload.rank_env, *workload.rank_unset, *workload.missing}:
        if not 0 <= rank < len(workload.ranks):
            yield f"workload: there is no rank {rank}"
    limits = {f"timeouts.{backend}": seconds for backend, seconds in workload.timeouts.items()}
    limits |= {f"deadlines.{backend}": seconds for backend, seconds in workload.deadlines.items()}
    limits["calm_timeout_s"] = workload.calm_timeout_s
    if workload.deadline_s is not None:
        limits["deadline_s"] = workload.deadline_s
    for name, seconds in limits.items():
        if not 0 < seconds < _DAY_S:  # also refuses what is not a number
            yield f"workload.{name}: {seconds:g} is not a number of seconds between 0 and a day"
    yield from (f"workload.master: {problem}" for problem in _of_ports(workload.master[1]))
    environments = [topology.env, workload.env, *workload.rank_env.values()]
    yield from (f"workload.env: {problem}" for env in environments for problem in _of_environment(env))
    yield from _of_expected(scenario)
    for cause in {scenario.cause, *scenario.causes.values(), *scenario.also} - {"none"}:
        if not _is_cause(cause):
            yield f"cause {cause!r} is not a cause id (`firstfault explain` lists them) and not `none`"
    try:
        program_command(workload, base)
    except InputError as error:
        yield f"workload.program: {error.what}"


def _of_expected(scenario: Scenario) -> Iterator[str]:
    rungs = [rung.id for rung in load_catalogue().rungs]
    for key, rung in scenario.stops_at.items():
        launcher, _, backend = key.partition("/")
        if launcher not in get_args(Launcher) or backend not in {"", *get_args(Backend)}:
            yield f"stops_at: {key!r} is no launcher (direct, torchrun) and no LAUNCHER/BACKEND"
        if rung not in rungs:
            yield f"stops_at: the ladder has no rung {rung!r}; there is {', '.join(rungs)}"
    for key in scenario.causes:
        if key not in {*get_args(Launcher), *get_args(Backend)}:
            yield f"causes: {key!r} is no backend (gloo, nccl) and no launcher (direct, torchrun)"


def _is_cause(cause: str) -> bool:
    try:
        load_catalogue().resolve(cause)
    except UsageError:
        return False
    return True


def _of_environment(env: dict[str, str]) -> Iterator[str]:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name + value:
            yield f"{name!r} cannot be an environment variable"


def _of_injection(injection: Injector, scenario: Scenario, topology: Topology) -> Iterator[str]:
    """Look at the fields that all kinds name alike."""
    nodes = {node.name for node in topology.nodes}
    ranks = range(len(scenario.workload.ranks))
    fields = {name: getattr(injection, name) for name in injection.__struct_fields__}
    named = [fields.get("node"), fields.get("sender"), *(fields.get("nodes") or [])]
    yield from (f"no node is called {name!r}" for name in named if name and name not in nodes)
    counted = [fields.get("rank"), injection.start.rank, *(fields.get("ranks") or [])]
    yield from (f"there is no rank {rank}" for rank in counted if rank is not None and rank not in ranks)
    for name in _PORTS & fields.keys():
        yield from _of_ports(fields[name])
    for name, (least, most) in _BOUNDS.items():
        value = fields.get(name)
        if value is not None and not least <= value <= most:  # also refuses what is not a number
            yield f"{name}: {value:g} is not between {least:g} and {most:,g}"
    if fields.get("address") and not _is_address(fields["address"]):
        yield f"{fields['address']!r} is no IPv4 address"
    if fields.get("path") and not _is_absolute(fields["path"]):
        yield f"{fields['path']!r} is no absolute path"
    yield from _of_changed(fields, topology)
    try:
        re.compile(injection.start.log)
    except re.error as error:
        yield f"start.log: {injection.start.log!r} is no regular expression: {error}"


def _of_changed(fields: dict[str, Any], topology: Topology) -> Iterator[str]:
    """Look at the toggles, rules and variables that an injection changes."""
    changed: dict[str, Any] = fields.get("set") or {}
    if all(isinstance(value, bool) for value in changed.values()):
        known = ", ".join(topology.toggles) or "none"
        yield from (
            f"no toggle is called {name!r}; there is {known}" for name in sorted({*changed} - {*topology.toggles})
        )
    else:
        yield from _of_environment(changed)
    rules = {f"{group.name}/{rule.id}" for group in topology.groups for rule in group.rules}
    yield from (f"no rule is called {name!r}" for name in fields.get("remove") or [] if name not in rules)
    groups = {group.name for group in topology.groups}
    yield from (f"no group is called {name!r}" for name in fields.get("add") or {} if name not in groups)


def _is_absolute(path: str) -> bool:
    return path.startswith("/") and ".." not in path.split("/")


def _of_measures(scenario: Scenario, topology: Topology) -> Iterator[str]:
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
