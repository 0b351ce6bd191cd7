"""What the tests of drills share: where local worlds can be made, a state folder, a world without a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.act.world import LocalWorld, NodeSpec
from firstfault.errors import UnsupportedError

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session")
def netns(tmp_path_factory):
    """Skip where this machine makes no local world."""
    node = NodeSpec(name="a", hostname="a", address="192.168.7.1/16")
    try:
        with LocalWorld([node], scratch=tmp_path_factory.mktemp("scratch")) as world:
            world.set_firewall("a", [], {})
    except UnsupportedError as error:
        pytest.skip(str(error))


@pytest.fixture
def state(tmp_path, monkeypatch):
    """A state folder of the test's own."""
    folder = tmp_path / "state"
    monkeypatch.setenv("FIRSTFAULT_STATE", str(folder))
    return folder


@pytest.fixture
def quick():
    """A scenario file whose program needs no PyTorch."""
    return str(DATA / "quick.yaml")
