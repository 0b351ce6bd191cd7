"""A world without a kernel, for the machinery around it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from firstfault.drills.engine import Drill, Settings
from firstfault.drills.journal import Journal
from firstfault.drills.scenario import load_scenario
from firstfault.drills.world import RankExit, Snapshot
from firstfault.model.drill import ProbeResult

GOOD_LOG = (
    "[init] host=h rank={rank} ws=2 master=m:29500\n"
    + "".join(f"[rank {{rank}}] iter {i} sum-first={v}.0\n" for i, v in enumerate((3, 6, 12, 24, 48)))
)  # fmt: skip
BAD_LOG = (
    "[init] host=h rank={rank} ws=2 master=m:29500\n"
    "torch.distributed.DistNetworkError: The client socket has timed out after 1000ms while trying to connect to "
    "(m, 29500).\n"
)


class FakeWorld:
    """Cut or not cut; ranks fail when it is. Hooks let a test act at a moment."""

    kind = "fake"
    ends_faults = True

    def __init__(self, topology, tmp_path):
        self.topology = topology
        self.groups = topology.groups_with({})
        self.temporary = tmp_path
        self.calls: list[str] = []
        self.hooks: dict[str, Any] = {}
        self.left: list[str] = []
        self.job: list[Any] = []
        self.baseline_fails = False
        self.hang = False
        self.harmless = False
        self.only_first_ends = False

    def _call(self, name):
        self.calls.append(name)
        if hook := self.hooks.get(name):
            hook()

    @property
    def cut(self):
        return sum(len(group.rules) for group in self.groups) < 13

    def open(self):
        self._call("open")
        return {"stub": 0}

    def close(self):
        self._call("close")
        return self.left

    def set_groups(self, groups):
        self._call("set_groups")
        self.groups = groups

    def snapshot(self):
        return Snapshot(firewall={}, refused={}, digest=repr(self.groups))

    def probe(self, *, patient=False):
        self._call("probe")
        result = "dropped" if self.cut else "open"
        return [
            ProbeResult(
                id=probe.id, source=probe.source, target=probe.target, protocol=probe.protocol, port=probe.port,
                title="", result=result, reachable=not self.cut, seconds=0,
            )
            for probe in self.topology.probes
        ]  # fmt: skip

    def start(self, job, logs):
        self._call("start")
        logs.mkdir(parents=True)
        bad = (self.cut and not self.harmless) or self.baseline_fails
        for process in job:
            (logs / process.log).write_text((BAD_LOG if bad else GOOD_LOG).format(rank=process.rank))
        self.job = [(process.rank, int(bad)) for process in job][: 1 if self.only_first_ends else None]

    def poll(self, seconds):
        self._call("poll")
        if self.hang and self.cut:
            return None
        return RankExit(*self.job.pop(0), time.time()) if self.job else None

    def examine(self, logs, *, stuck_s):
        """Nothing to ask."""

    def end_job(self):
        self._call("end_job")


class Watcher:
    """Remembers the events of a drill; hooks let a test act at one."""

    def __init__(self):
        self.events: list[str] = []
        self.hooks: dict[str, Any] = {}

    def event(self, name, fields):
        self.events.append(name)
        if hook := self.hooks.get(name):
            hook()

    def tick(self):
        pass


def drill(scenario_file, tmp_path):
    """Return a drill in a fake world, the world, the journal and the watcher."""
    scenario = load_scenario(Path(scenario_file))
    topology = scenario.find_topology()
    world = FakeWorld(topology, tmp_path)
    journal = Journal.create(tmp_path / "state")
    watcher = Watcher()
    machine = Drill(
        scenario,
        world,
        topology=topology,
        settings=Settings(backend="gloo", base=Path(scenario_file).parent),
        journal=journal,
        observer=watcher,
    )
    return machine, world, journal, watcher
