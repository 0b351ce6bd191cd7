"""Runs or plans a drill on a cluster: turns toggles into the injector that was asked for, and starts the watchdog."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firstfault.drills.eks.safety import affected_by, check_consent
from firstfault.drills.eks.watchdog import reap, start_watchdog
from firstfault.drills.eks.world import Eks
from firstfault.drills.engine import Drill, Observer, Settings
from firstfault.drills.injectors import Ec2Rules, Injector, NetworkPolicy, SecurityGroupToggles, TerraformVariables
from firstfault.drills.journal import Journal
from firstfault.errors import UnsupportedError, UsageError
from firstfault.model.drill import Change, DrillReport
from firstfault.model.scratch import private_folder

if TYPE_CHECKING:
    from firstfault.drills.eks.options import EksOptions
    from firstfault.drills.jobs import Backend, Launcher
    from firstfault.drills.scenario import Scenario
    from firstfault.drills.topology import Topology

__all__ = ["on_cluster", "plan_on_cluster", "run_on_cluster"]

_POD_START_S = 600.0
"""Image pull and scheduling of a cold node; the workload's own deadline comes on top."""


def on_cluster(scenario: Scenario, topology: Topology, options: EksOptions) -> Scenario:
    """Return the scenario with its toggles as injections of the cluster.

    Raises:
        UnsupportedError: The scenario injects something that has no counterpart on a cluster.
    """
    injections: list[Injector] = []
    for injection in scenario.injections:
        if not isinstance(injection, SecurityGroupToggles) or not injection.start.before_job:
            raise UnsupportedError(
                f"drill {scenario.name}: its injection has no counterpart on a cluster",
                "drills that flip security-group toggles before the job run there; see docs/eks.md",
            )
        if options.injector == "terraform":
            restore = {name: topology.toggles[name] for name in injection.set}
            injections.append(TerraformVariables(set=injection.set, restore=restore))
        elif options.injector == "ec2":
            injections.append(Ec2Rules(set=injection.set))
        else:
            injections.append(NetworkPolicy())
    workload = scenario.workload
    deadline = (workload.deadline_s or 60 + 6 * workload.calm_timeout_s) + _POD_START_S
    # A job may take half of the time at most: the rest belongs to taking the fault back.
    limit = options.max_duration_s / 2 if options.max_duration_s > 0 else deadline
    workload = msgspec.structs.replace(workload, deadline_s=min(deadline, limit))
    expect = scenario.expect
    if options.injector == "networkpolicy":
        expect = [row for row in expect if row.measure.startswith("ranks.")]
    return msgspec.structs.replace(scenario, injections=injections, workload=workload, expect=expect)


def plan_on_cluster(scenario: Scenario, options: EksOptions) -> Change:
    """Say exactly what the drill would change and whom it reaches. Reads only.

    Raises:
        FirstFaultError: The cluster, the account or the configuration cannot be read, or a group does not allow drills.
    """
    topology = scenario.find_topology()
    with private_folder("firstfault-plan-") as state:
        journal = Journal.create(state)
        with contextlib.closing(journal), Eks(topology, options, journal=journal) as world:
            count, seconds = len(scenario.workload.ranks), options.max_duration_s
            steps = [
                f"create {count} Pods ({options.gpus} GPU each), a headless Service and a ConfigMap, three times",
                f"in namespace {options.namespace}, with image {options.image}; delete them each time",
                "cost: the Pods run on nodes that are there already; no node, disk or address is added",
                f"time: three jobs; the fault is gone after {seconds:g} s at the latest, by a watchdog if need be",
            ]
            parts = [each.describe(world) for each in on_cluster(scenario, topology, options).injections]
            if options.injector != "networkpolicy":
                steps += _targets(world)
    return Change(
        summary="; ".join(part.summary for part in parts if part.summary),
        rules=[rule for part in parts for rule in part.rules],
        steps=[*(step for part in parts for step in part.steps), *steps],
    )


def _targets(world: Eks) -> list[str]:
    groups = world.ec2.groups(list(world.group_ids.values()))
    check_consent(groups)
    affected = affected_by(
        world.ec2.interfaces_of(list(world.group_ids.values())),
        list(world.cluster.items("/api/v1/nodes")),
        list(world.cluster.items("/api/v1/pods")),
        run=world.run,
        accept=world.options.accept,
        run_label="",
    )
    steps = [f"target: security group {name} = {group_id}" for name, group_id in world.group_ids.items()]
    steps += [f"would be cut: interface {each}" for each in affected.interfaces]
    steps += [f"would be cut: Pod {each}" for each in affected.pods]
    return steps + [f"REFUSED until it is gone or accepted: {each}" for each in affected.foreign]


def run_on_cluster(
    scenario: Scenario,
    options: EksOptions,
    *,
    backend: Backend,
    launcher: Launcher,
    timeout: float | None,
    base: Path,
    state: Path,
    observer: Observer,
) -> DrillReport:
    """Run a drill on a cluster, with a watchdog that takes the fault back if this process cannot.

    Raises:
        FirstFaultError: A check refused (nothing was changed), or restoring failed (RestoreError).
        Interrupted: Ctrl-C or SIGTERM (a KeyboardInterrupt); everything was taken back before.
    """
    if options.max_duration_s <= 0:
        raise UsageError("a drill on a cluster needs a limit", "give --max-duration, for example 15m")
    topology = scenario.find_topology()
    journal = Journal.create(state)
    with contextlib.ExitStack() as stack:
        stack.callback(journal.close)
        # On the disk before the lock is taken in the cluster: whoever recovers knows which cluster it was.
        identity = {"options": options, "topology": topology, "groups": {}}
        journal.append("world-options", sync=True, drill=scenario.name, identity=identity)
        try:
            there = on_cluster(scenario, topology, options)
            world = stack.enter_context(Eks(topology, options, journal=journal))
            watchdog = start_watchdog(journal.folder, options.max_duration_s)
        except BaseException as error:
            # No call that changes anything was made: there is nothing for `recover` to look for.
            journal.append("run-ended", outcome="refused", error=str(error))
            raise
        drill = Drill(
            there,
            world,
            topology=topology,
            settings=Settings(backend=backend, launcher=launcher, timeout=timeout, base=base),
            journal=journal,
            observer=observer,
        )
        report = drill.run()
        reap(watchdog)
    return report
