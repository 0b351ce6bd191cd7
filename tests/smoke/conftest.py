"""Two hosts with the seed's security groups, on which `firstfault smoke` runs as two real processes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from firstfault.act.world import LocalWorld, NodeSpec
from firstfault.drills import find_scenario
from firstfault.model.securitygroups import GroupRule, SecurityGroup

HOSTS = "127.0.0.1 localhost\n192.168.10.11 node-a nccl-master\n192.168.10.12 node-b\n"
NODES = {"node-a": "192.168.10.11", "node-b": "192.168.10.12"}
ALL = GroupRule(id="all", direction="ingress", protocol="all", peer="192.168.0.0/16")
OUT = GroupRule(id="out", direction="egress", protocol="all", peer="0.0.0.0/0")
MASTER_ONLY = GroupRule(id="master", direction="ingress", ports=(29500, 29500), peer="192.168.0.0/16")


class Pair:
    """Two hosts; `run` starts one smoke process on each and returns both results."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts = HOSTS
        self.rules = [ALL, OUT]
        self.reject = False

    def dying(self, rank: int, how: str = "os.kill(os.getpid(), signal.SIGKILL)") -> Path:
        """Return a path for Python under which that rank ends when it is about to start its backend."""
        site = self.folder / "site"
        site.mkdir()
        source = Path(__file__).parents[2] / "src"
        (site / "sitecustomize.py").write_text(
            f"import os, signal, sys\nsys.path.insert(0, {str(source)!r})\n"
            f"if os.environ.get('RANK') == '{rank}' and 'FIRSTFAULT_SMOKE_FD' not in os.environ:\n"
            "    import firstfault.smoke.run as run\n"
            f"    def die(*_): {how}\n"
            "    run.climb_backend = die\n"
        )
        return site

    def run(self, *options: str, ranks=(0, 1), wait: float = 4, env=None, program=()):
        """Return {rank: (exit code, report or None, text)}."""
        specs = [
            NodeSpec(name=name, hostname=name, address=f"{address}/16", files={"/etc/hosts": self.hosts})
            for name, address in NODES.items()
        ]
        world = LocalWorld(specs, scratch=self.folder / "scratch", table="firstfault_smoke")
        world.start()
        try:
            for name in NODES:
                group = SecurityGroup(name="all", rules=self.rules)
                world.set_firewall(name, [group], {"all": list(NODES.values())}, reject=self.reject)
            jobs = {}
            for rank in ranks:
                node = list(NODES)[rank]
                result = self.folder / f"result-{rank}.json"
                argv = [
                    sys.executable, "-m", "firstfault", "smoke", "--backend", "gloo", "--wait", f"{wait:g}",
                    "--format", "json", "--output", str(result), *options, *program,
                ]  # fmt: skip
                base = {key: value for key, value in os.environ.items() if not key.startswith(("NCCL", "GLOO"))}
                own = {
                    "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "nccl-master", "MASTER_PORT": "29500",
                    "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "GLOO_SOCKET_IFNAME": "eth0",
                    "NCCL_SOCKET_IFNAME": "eth0", "NCCL_IB_DISABLE": "1", "NCCL_HOSTID": node,
                }  # fmt: skip
                with (self.folder / f"out-{rank}.txt").open("wb") as output:
                    job = world.spawn(
                        node, argv, env={**base, **own, **(env or {})}, cwd=self.folder, output=output.fileno()
                    )
                jobs[job] = rank
            codes = {}
            while jobs:
                ended = world.wait_exit(1.0)
                if ended and ended.job in jobs:
                    codes[jobs.pop(ended.job)] = ended.code
        finally:
            world.close()
        found = {}
        for rank, code in codes.items():
            result = self.folder / f"result-{rank}.json"
            text = (self.folder / f"out-{rank}.txt").read_text(errors="replace")
            found[rank] = (code, json.loads(result.read_text()) if result.is_file() else None, text)
        return found


@pytest.fixture
def pair(tmp_path):
    assert find_scenario("sg-block")
    return Pair(tmp_path)
