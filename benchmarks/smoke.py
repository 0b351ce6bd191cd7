"""How soon does `firstfault smoke` name a fault? Faults between two hosts in network namespaces.

Prints, for the rank that sees it, seconds from the first sign of the peer (or of silence) to the verdict, and those of
the whole run without interpreter start, on a machine that should be quiet.
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
    "none": {"wait": 60},
    "security group drops": {"rules": [OUT]},
    "firewall rejects": {"rules": [OUT], "reject": True},
    "peer mesh blocked": {"rules": [MASTER_ONLY, OUT]},
    "name does not resolve": {"hosts": NO_MASTER},
    "wrong interface": {"env": {"GLOO_SOCKET_IFNAME": "eth7", "NCCL_SOCKET_IFNAME": "eth7"}},
    "sockets instead of EFA": {"wait": 60, "options": ("--expect-transport", "efa")},
}


def main() -> None:
    print(f"{'fault':<24} {'verdict':<36} {'named after':>11} {'whole run':>10}")
    backend = sys.argv[1] if len(sys.argv) > 1 else "gloo"
    for name, fault in FAULTS.items():
        if name == "sockets instead of EFA" and backend == "gloo":
            continue
        with tempfile.TemporaryDirectory() as folder:
            pair = Pair(Path(folder))
            env, wait, options = fault.pop("env", None), fault.pop("wait", 4), fault.pop("options", ())
            for field, value in fault.items():
                setattr(pair, field, value)
            _, report, text = pair.run("--backend", backend, *options, wait=wait, env=env)[1]
            if report is None:
                print(name, "no report:", text)
                continue
            verdict = report["verdict"]["cause"] if report["verdict"] else report["status"]
            named = report["diagnosis_seconds"]
            shown = "-" if named is None else f"{named:.2f} s"
            print(
                f"{name:<24} {verdict:<36} {shown:>11} {report['seconds']:>8.2f} s  {report['chosen'] or ''}",
                flush=True,
            )
            if report["status"] == "unknown" or (name == "none" and report["status"] != "ok"):
                print(report["rungs"], text[-2000:])


if __name__ == "__main__":
    main()
