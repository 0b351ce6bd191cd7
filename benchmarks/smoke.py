"""How soon does `firstfault smoke` name a fault? Five faults between two hosts in network namespaces, gloo.

Prints, for the rank that sees it, seconds from the first sign of the peer (or of silence) to the verdict, and those of
the whole run without interpreter start. Run it on a quiet machine: `python benchmarks/smoke.py`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

# The tests' two hosts are what is measured; this file must not be taken for their package.
ROOT = Path(__file__).parents[1]
sys.path[:] = [str(ROOT / "src"), str(ROOT / "tests"), *sys.path[1:]]

from smoke.conftest import MASTER_ONLY, OUT, Pair  # noqa: E402 - the paths come first

NO_MASTER = "127.0.0.1 localhost\n192.168.10.11 node-a\n192.168.10.12 node-b\n"
FAULTS = {
    "security group drops": {"rules": [OUT]},
    "firewall rejects": {"rules": [OUT], "reject": True},
    "peer mesh blocked": {"rules": [MASTER_ONLY, OUT]},
    "name does not resolve": {"hosts": NO_MASTER},
    "wrong interface": {"env": {"GLOO_SOCKET_IFNAME": "eth7"}},
}


def main() -> None:
    print(f"{'fault':<24} {'verdict':<30} {'named after':>11} {'whole run':>10}")
    for name, fault in FAULTS.items():
        with tempfile.TemporaryDirectory() as folder:
            pair = Pair(Path(folder))
            env = fault.pop("env", None)
            for field, value in fault.items():
                setattr(pair, field, value)
            _, report, text = pair.run(env=env)[1]
            if report is None:
                print(name, "no report:", text)
                continue
            verdict = report["verdict"]["cause"]
            print(f"{name:<24} {verdict:<30} {report['diagnosis_seconds']:>9.2f} s {report['seconds']:>8.2f} s")


if __name__ == "__main__":
    main()
