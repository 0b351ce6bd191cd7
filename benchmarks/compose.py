#!/usr/bin/env python3
"""Composes a corpus from the cards: a fault's own line in one file, what other ranks print after it in another.

    python benchmarks/compose.py > composed.jsonl && python benchmarks/accuracy.py composed.jsonl --confusion

It measures whether the first cause is still found under its aftermath and whether cards contradict each other, not
whether the cards know the world: each case holds a sample that a card was written for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from firstfault.catalogue import load_catalogue

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "examples" / "logs"
LAUNCHER = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_10:00:00
  host      : node-1
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 4711)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
# What is there beside the fault's own line: nothing, closed connections, a time-out, the launcher's summary.
AFTERMATH = {
    "alone": None,
    "peer-closed": (LOGS / "nccl-rank-exception" / "rank0.log").read_text(),
    "timed-out": (LOGS / "nccl-straggler" / "rank0.log").read_text(),
    "launcher": LAUNCHER,
}
WEAKEST = 0.5


def main() -> None:
    for card in load_catalogue().cards.values():
        for signature in card.signatures:
            if signature.role != "root" or signature.strength < WEAKEST:
                continue
            for name, aftermath in AFTERMATH.items():
                case = {
                    "id": f"{card.id}/{signature.id}/{name}",
                    "layer": card.layer,
                    "cause": card.cause,
                    "files": {"a.log": signature.samples[0].text + "\n"}
                    | ({"rank0.log": aftermath} if aftermath else {}),
                }
                print(json.dumps(case))


if __name__ == "__main__":
    main()
