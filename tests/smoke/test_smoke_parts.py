"""The parts of smoke that need no network: interfaces, environment, floors, metrics."""

from __future__ import annotations

import pytest

from firstfault.errors import UsageError
from firstfault.model.smoke import RungResult, SmokeReport
from firstfault.report.smoke import render_smoke
from firstfault.smoke import Options, from_environment
from firstfault.smoke.floors import bandwidth_floor, expected_transport, transport_matches
from firstfault.smoke.interfaces import interface_problem, matching
from firstfault.smoke.metrics import exposition


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("eth", ["eth0", "eth1"]), ("eth0", ["eth0"]), ("=eth", []), ("=eth1", ["eth1"]),
        ("^lo,docker", ["eth0", "eth1"]), ("^=eth0", ["lo", "eth1", "docker0"]), ("ens", []),
    ],
)  # fmt: skip
def test_interface_names_are_read_as_nccl_reads_them(wanted, found):
    """Prefixes, exact names behind `=`, exclusion behind `^` (NCCL user guide, NCCL_SOCKET_IFNAME)."""
    assert matching(wanted, ["lo", "eth0", "eth1", "docker0"]) == found


def test_loopback_is_wrong_between_hosts_only():
    names = ["lo", "eth0"]
    assert interface_problem("nccl", {"NCCL_SOCKET_IFNAME": "lo"}, names)[0] == "network.nccl.interface"
    assert interface_problem("nccl", {"NCCL_SOCKET_IFNAME": "lo"}, names, one_host=True) is None
    assert interface_problem("gloo", {"NCCL_SOCKET_IFNAME": "ens5"}, names) is None
    assert interface_problem("nccl", {}, names) is None


def test_environment_of_an_indexed_job_is_enough():
    given = {"JOB_COMPLETION_INDEX": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "m"}
    assert from_environment(given) == (1, 2, ("m", 29500), 0)


@pytest.mark.parametrize(
    "change",
    [
        {"RANK": "2"},
        {"RANK": "x"},
        {"MASTER_PORT": "99999"},
        {"WORLD_SIZE": ""},
        {"WORLD_SIZE": "99999999999"},
        {"MASTER_ADDR": ""},
    ],
)
def test_wrong_environment_is_named(change):
    good = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "MASTER_PORT": "29500"}
    with pytest.raises(UsageError):
        from_environment({**good, **change})


def options(**changes):
    return Options(**{"rank": 0, "world_size": 2, "master": ("m", 29500), "backend": "nccl", **changes})


def test_efa_instance_on_sockets_is_the_silent_fallback():
    """p5 expects EFA; g5.xlarge prescribes nothing; the caller's word counts more."""
    assert expected_transport(options(instance_type="p5.48xlarge")) == "efa"
    assert expected_transport(options(instance_type="g5.xlarge")) is None
    assert expected_transport(options(instance_type="p5.48xlarge", expect="any")) == "any"
    assert not transport_matches("efa", "TCP socket")
    assert transport_matches("efa", "EFA/Libfabric")


def test_floor_is_the_caller_s_or_a_third_of_the_published_bandwidth():
    assert bandwidth_floor(options(instance_type="p4d.24xlarge")) == pytest.approx(400e9 / 8 / 3)
    assert bandwidth_floor(options(instance_type="p4d.24xlarge", min_bandwidth=1.0)) == 1.0
    assert bandwidth_floor(options(instance_type="g5.xlarge")) is None


def test_metrics_are_valid_exposition_with_the_names_of_the_rules():
    report = SmokeReport(
        status="fault", rank=1, world_size=2, host="h", backend="nccl", seconds=3.0, verdict=None, chosen="TCP socket",
        expected="efa", bus_bandwidth=2.5e9,
        rungs=[RungResult(rung="name", ok=True, seconds=0.1, why="x", peer='m"\n\\'), RungResult(rung="tcp", ok=None, seconds=0, why="")],
    )  # fmt: skip
    text = exposition(report, node="n1", instance_type="p5.48xlarge", now=1000.0)
    assert 'firstfault_smoke_success{node="n1",rank="1"} 0' in text
    assert 'peer="m\\"\\n\\\\"' in text
    assert 'rung="tcp"} ' not in text.split("rung_seconds")[0]
    assert 'chosen="TCP socket",expected="efa"} 1' in text
    assert "firstfault_smoke_bus_bandwidth_bytes_per_second" in text
    for line in text.splitlines():
        assert line.startswith(("#", "firstfault_smoke_"))


def test_rank_without_its_peer_says_where_to_look():
    """A peer that was told to end is no fault of the path, and why this rank failed is shown."""
    report = SmokeReport(
        status="unknown", rank=1, world_size=2, host="h", backend="gloo", seconds=3.0, verdict=None,
        rungs=[RungResult(rung="store", ok=False, seconds=1, why="rank 0 gave up: it was interrupted", peer="rank 0")],
    )  # fmt: skip
    text = render_smoke(report, "text")
    assert "rank 0 gave up: it was interrupted" in text
    assert "could not go on without rank 0; look there" in text
    assert "nothing shows why" not in text
