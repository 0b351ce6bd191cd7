"""A small world for the tests that need a kernel."""

from __future__ import annotations

import pytest

from firstfault.act.world import LocalWorld, NodeSpec
from firstfault.errors import UnsupportedError

HOSTS = "127.0.0.1 localhost\n192.168.7.1 alpha-0 alpha\n192.168.7.2 beta-0 beta\n"


@pytest.fixture
def world(tmp_path):
    """Two nodes, alpha and beta, on one switch."""
    nodes = [
        NodeSpec(name="alpha", hostname="alpha-0", address="192.168.7.1/16", files={"/etc/hosts": HOSTS}),
        NodeSpec(name="beta", hostname="beta-0", address="192.168.7.2/16", files={"/etc/hosts": HOSTS}),
    ]
    made = LocalWorld(nodes, scratch=tmp_path / "scratch", table="firstfault_test")
    try:
        made.start()
    except UnsupportedError as error:
        pytest.skip(str(error))
    yield made
    made.close()
