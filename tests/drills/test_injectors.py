"""Injections without a kernel: what they announce, how they change a job, and that undo needs nothing but the record."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from firstfault.drills.engine import Settings
from firstfault.drills.injectors import INJECTORS
from firstfault.drills.injectors.job import EnvironmentChange, HeldPort, MissingRank
from firstfault.drills.injectors.kernel_log import KernelLogLine, agents
from firstfault.drills.injectors.packets import DelayedFrames, DropPackets, LimitedRate, PulledCable
from firstfault.drills.injectors.process import AddressSpaceLimit, SignalRank
from firstfault.drills.injectors.security_groups import SecurityGroupRules
from firstfault.drills.jobs import processes
from firstfault.drills.scenario import Workload, bundled_scenarios, find_topology
from firstfault.errors import InputError, UsageError

TOPOLOGY = find_topology("two-nodes")


class Recorder:
    """Stands for the kernel side of a world: remembers what it was asked."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls.append((name, *arguments, *options.values()))
            return SimpleNamespace(close=lambda: self.calls.append(("closed",)))

        return call


@pytest.fixture
def world():
    """A world whose kernel only takes notes."""
    return SimpleNamespace(
        topology=TOPOLOGY,
        net=Recorder(),
        jobs={0: 11, 1: 12},
        held={},
        relay=None,
        fault_table="t",
        temporary=Path("/x"),
    )


def started(workload, **options):
    """The processes of a workload."""
    return processes(
        workload,
        TOPOLOGY,
        backend="gloo",
        launcher="direct",
        timeout=5,
        base=Path(),
        temporary=Path("/x"),
        environ={},
        **options,
    )


def test_environment_reaches_the_named_rank_alone():
    """Set and unset for rank 1; rank 0 starts as usual."""
    change = EnvironmentChange(set={"MASTER_PORT": "1"}, unset=["WORLD_SIZE"], ranks=[1])
    first, second = started(change.adapt(Workload(ranks=["node-a", "node-b"])))
    assert (first.env["MASTER_PORT"], first.env["WORLD_SIZE"]) == ("29500", "2")
    assert second.env["MASTER_PORT"] == "1"
    assert "WORLD_SIZE" not in second.env


def test_missing_rank_stays_counted():
    """One process fewer, the same world size."""
    (only,) = started(MissingRank(ranks=[1]).adapt(Workload(ranks=["node-a", "node-b"])))
    assert (only.rank, only.env["WORLD_SIZE"]) == (0, "2")


def test_shell_stays_around_the_program():
    """It must be there to say which signal ended the program."""
    (process,) = started(Workload(ranks=["node-a"], entrypoint="shell"))
    assert process.argv[1] == "-c"
    assert not process.argv[2].startswith("exec")


def test_signal_hits_the_running_rank_and_a_stopped_one_is_continued(world):
    """Undo continues a stopped process by its record, and leaves others alone."""
    stop = SignalRank(rank=1, signal="SIGSTOP")
    record = stop.prepare(world)
    stop.inject(world)
    SignalRank.undo(world, record)
    SignalRank.undo(world, {**record, "job": 99})
    assert world.net.calls == [("signal_program", 12, 19), ("signal_program", 12, 18)]


def test_signal_to_a_rank_that_has_ended_does_nothing(world):
    """The rank was faster than the trigger."""
    SignalRank(rank=7, signal="SIGKILL").inject(world)
    AddressSpaceLimit(rank=7, headroom_bytes=1).inject(world)
    assert world.net.calls == []


def test_packet_faults_undo_on_every_node(world):
    """What was injected on both nodes is taken back on both, from the record."""
    for fault, undo in (
        (DropPackets(nodes=["node-a", "node-b"], percent=5, sender="node-a", ports=(1, 2), larger_than=9), "netlink"),
        (LimitedRate(nodes=["node-a", "node-b"], mbit_per_s=1), "limit_rate"),
    ):
        record = fault.prepare(world)
        fault.inject(world)
        world.net.calls.clear()
        type(fault).undo(world, record)
        assert [call[:2] for call in world.net.calls] == [(undo, "node-a"), (undo, "node-b")]


def test_undo_of_a_delay_that_never_began_plugs_every_cable_in(world):
    """Harmless when the relay was never made."""
    DelayedFrames.undo(world, DelayedFrames(ms=1).prepare(world))
    assert {call[1] for call in world.net.calls} == {node.name for node in TOPOLOGY.nodes}


def test_held_port_is_closed_once(world):
    """A second undo finds nothing to close."""
    fault = HeldPort(node="node-a", port=29500)
    record = fault.prepare(world)
    fault.inject(world)
    HeldPort.undo(world, record)
    HeldPort.undo(world, record)
    assert world.net.calls.count(("closed",)) == 1


def test_pulled_cable(world):
    """Down, and up again."""
    fault = PulledCable(node="node-b")
    fault.inject(world)
    PulledCable.undo(world, fault.prepare(world))
    assert world.net.calls == [("set_link", "node-b", False), ("set_link", "node-b", True)]


def test_unknown_rule_is_named():
    """A misspelt rule is not silently kept."""
    groups = find_topology("eks-two-nodes").groups_with({})
    with pytest.raises(InputError, match="node/ephemerl"):
        SecurityGroupRules(remove=["node/ephemerl"]).describe(SimpleNamespace(groups=groups))


def test_kernel_log_is_refused_where_somebody_acts_on_it(tmp_path):
    """A kubelet, or a monitor whose name the kernel cut at fifteen characters."""
    for number, name in (("1", "systemd"), ("2", "kubelet"), ("3", "node-problem-de")):
        (tmp_path / number).mkdir()
        (tmp_path / number / "comm").write_text(name + "\n")
    assert sorted(agents(tmp_path)) == ["kubelet", "node-problem-de"]


def test_kernel_log_line_announces_that_it_stays():
    """It is marked as simulated, and the report will list it."""
    (left,) = KernelLogLine(text="NVRM: Xid 79").leaves()
    assert "simulated" in left


def test_every_kind_is_announced():
    """Whatever a scenario injects, `plan` has a line or a rule for it."""
    for scenario in bundled_scenarios():
        topology = scenario.find_topology()
        world = SimpleNamespace(topology=topology, groups=topology.groups_with({}), temporary=Path("/x"))
        for injection in scenario.injections:
            change = injection.describe(world)
            assert change.steps or change.rules, scenario.name
    assert len({kind.__struct_config__.tag for kind in INJECTORS}) == len(INJECTORS)


def test_kernel_log_drill_needs_its_own_word(state):
    """By name alone it is refused, and nothing is written."""
    from firstfault.drills import run_drill  # noqa: PLC0415 - heavy

    with pytest.raises(UsageError, match="kernel log"):
        run_drill("kmsg-xid-sensor")
    assert not state.exists()
    assert Settings(backend="gloo").launcher == "direct"
