"""What faults ask of a kernel: packets that vanish by length and chance, rates, relayed frames, small file systems."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from firstfault.act import netlink, nftables
from firstfault.drills.relay import Relay

pytestmark = pytest.mark.netns

ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
TABLE = "firstfault_test_fault"


@pytest.fixture
def ask(world):
    """Send a datagram from alpha to an echo on beta; return the answer's seconds, or None."""
    with world.socket("beta", "udp", ("192.168.7.2", 4000)) as echo, world.socket("alpha", "udp") as asker:
        echo.settimeout(0.3)
        asker.settimeout(5)
        asker.connect(("192.168.7.2", 4000))

        def send(size=10):
            began = time.monotonic()
            asker.send(b"x" * size)
            try:
                data, peer = echo.recvfrom(4096)
            except TimeoutError:
                return None
            echo.sendto(data, peer)
            asker.recv(4096)
            return time.monotonic() - began

        yield send


def drop_on_beta(world, *matches):
    """Drop what matches on beta, in a table of the test's own."""
    content = [
        nftables.chain(TABLE, "input", hook="input", priority=-10),
        nftables.rule(TABLE, "input", *matches, nftables.counter(), nftables.drop(), comment="test"),
    ]
    world.netlink("beta", netlink.NETLINK_NETFILTER, nftables.replace_table(TABLE, content), batch=True)


def test_packets_vanish_by_length_until_the_table_is_deleted(world, ask):
    """Small ones pass, large ones do not; deleting twice is harmless."""
    before = world.all_rules("beta")
    drop_on_beta(world, nftables.length_over(500))
    assert ask(100) is not None
    assert ask(1000) is None
    assert world.all_rules("beta") != before
    for _ in range(2):
        world.netlink("beta", netlink.NETLINK_NETFILTER, nftables.delete_table(TABLE), batch=True)
    assert world.all_rules("beta") == before
    assert ask(1000) is not None


def test_packets_vanish_by_chance(world, ask):
    """All of a hundred, none of a hundred, and some of many: the kernel compares the number in the right byte order."""
    drop_on_beta(world, nftables.at_random(100))
    assert ask() is None
    drop_on_beta(world, nftables.at_random(0))
    assert ask() is not None
    drop_on_beta(world, nftables.at_random(50))
    # All alike has a chance of 2 in 2^20.
    assert len({ask() is None for _ in range(20)}) == 2


def test_frames_come_later_and_the_bridge_comes_back(world, ask):
    """There and back through the relay takes at least twice its delay."""
    relay = Relay([world.unplug_from_bridge(node) for node in ("alpha", "beta")], 0.02)
    try:
        assert ask(1000) >= 0.04
    finally:
        relay.close()
    for _ in range(2):
        for node in ("alpha", "beta"):
            world.plug_into_bridge(node)
    assert ask() is not None


def test_rate_is_limited_and_given_back(world, ask):
    """A tenth of a second's worth waits in line; taking the limit away twice is harmless."""
    world.limit_rate("beta", 80_000)
    try:
        assert ask() is not None
    finally:
        for _ in range(2):
            world.limit_rate("beta", None)
    assert ask(1000) is not None


def spawn(world, node, script):
    """Run a shell script in a node; return its exit code."""
    with Path(os.devnull).open("wb") as nothing:
        job = world.spawn(node, ["/bin/sh", "-c", script], env=ENV, cwd=Path("/"), output=nothing.fileno())
    ended = world.wait_exit(20)
    assert ended.job == job
    return ended.code


def test_small_file_system_is_the_nodes_own(world, tmp_path):
    """What does not fit on beta fits on alpha, and on beta again afterwards."""
    folder = tmp_path / "scratch"
    write = f"head -c 200000 /dev/zero > {folder}/file"
    world.mount_tmpfs("beta", str(folder), 65536)
    assert spawn(world, "beta", write) != 0
    assert spawn(world, "alpha", write) == 0
    world.unmount("beta", str(folder))
    assert spawn(world, "beta", write) == 0


def test_signal_reaches_the_program_not_its_shell(world):
    """The shell lives to report 128 + the signal's number."""
    read, write = os.pipe()
    script = "sh -c 'echo ready; sleep 60'; exit $?"
    job = world.spawn("beta", ["/bin/sh", "-c", script], env=ENV, cwd=Path("/"), output=write)
    os.close(write)
    with os.fdopen(read) as stream:
        assert stream.readline() == "ready\n"
        assert world.signal_program(job, signal.SIGKILL)
        assert world.wait_exit(20).code == 128 + signal.SIGKILL
    assert not world.signal_program(job, signal.SIGKILL)
