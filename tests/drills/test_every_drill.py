"""Every drill of this machine, once, side by side: what `drill run --all` promises, drill by drill."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from firstfault.drills import bundled_scenarios

pytestmark = [
    pytest.mark.netns,
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.usefixtures("netns"),
    pytest.mark.xdist_group("every-drill"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"),
]


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    """The result of `drill run --all`: exit code and JSON."""
    env = {
        **os.environ,
        "FIRSTFAULT_STATE": str(tmp_path_factory.mktemp("state")),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "firstfault", "drill", "run", "--all", "--backend", "gloo", "--format", "json"],
        env=env, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


@pytest.mark.parametrize("scenario", bundled_scenarios(), ids=lambda scenario: scenario.name)
def test_drill(everything, scenario):
    """Restored, nothing left behind, and the cause named from the logs alone."""
    _, result = everything
    if why := next((each["why"] for each in result["left_out"] if each["drill"] == scenario.name), None):
        assert "report" not in why, why
        pytest.skip(why)
    report = next(each for each in result["drills"] if each["drill"] == scenario.name)
    wrong = [row for row in report["expected_vs_measured"] if row["basis"] == "scenario" and row["match"] != "yes"]
    assert [row for row in wrong if row["match"] != "n/a"] == []
    differs = [row for row in report["recovery"] if row["match"] not in {"yes", "n/a"}]
    ranks = [phase["ranks"] for phase in report["phases"] if phase["name"] == "restored"]
    assert differs == [], ranks
    assert report["restored"]
    assert report["left_behind"] == []


def test_scoreboard_is_green(everything):
    """The whole has exit code 0, and the drill that writes to the kernel log was not part of it."""
    code, result = everything
    assert code == 0
    assert len(result["repeated"]) <= 2, "a machine this busy can still run drills; so many are a defect"
    assert "kmsg-xid-sensor" in {each["drill"] for each in result["left_out"]}
