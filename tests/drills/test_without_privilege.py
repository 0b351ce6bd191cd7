"""Faults that need the kernel's help, as an ordinary user: mounts, packet sockets, queueing, limits, name servers."""

from __future__ import annotations

import importlib.util
import json

import pytest

from support.users import ordinary_user  # noqa: F401 - a fixture

pytestmark = [
    pytest.mark.netns,
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
]


@pytest.mark.parametrize(
    ("drill", "cause"),
    [
        ("disk-full", "infra.disk.ephemeral"),
        ("delay", "network.link.degraded"),
        ("bandwidth-limit", "network.link.degraded"),
        ("host-oom", "workload.host.oom"),
        ("dns-missing", "network.dns.unresolved"),
        ("rank-killed", "workload.signal.killed"),
    ],
)
def test_drill(ordinary_user, drill, cause):  # noqa: F811 - the fixture
    """The same result as for root."""
    ended = ordinary_user.run("drill", "run", drill, "--backend", "gloo", "--format", "json")
    if "Nothing was changed" in ended.stderr:
        pytest.skip(ended.stderr)
    assert ended.returncode == 0, ended.stderr + ended.stdout[-3000:]
    report = json.loads(ended.stdout)
    assert report["verdict"]["cause"] == cause
    assert report["restored"]
