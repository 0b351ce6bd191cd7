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
STORE_LOST = """\
[rank3]:[W1206 18:44:20.100 TCPStore.cpp:115] [c10d] recvVector failed on SocketImpl(fd=3, addr=[worker-1]:41210, \
remote=[master-0]:29500): failed to recv, got 0 bytes
torch.distributed.DistNetworkError: failed to recv, got 0 bytes
"""
GLOO_CLOSED = """\
[rank1]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Connection closed by peer \
[10.0.0.4]:39827
"""
DUMP_SIGNAL = """\
[rank0]:[E804 23:05:54.816 ProcessGroupNCCL.cpp:1849] [PG ID 0 PG GUID 0(default_pg) Rank 0] Observed flight \
recorder dump signal from another rank via TCPStore.
[rank0]:[E804 23:05:54.817 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal \
due to a collective timeout from  rank 13 and we will try our best to dump the debug info.
"""
BATCH_SYSTEM = """\
srun: launch/slurm: _step_signal: Terminating StepId=120.0
slurmstepd: error: *** STEP 120.0 ON c002 CANCELLED AT 2026-01-01T10:00:01 ***
srun: error: c003: tasks 1-3: Terminated
"""
JAX = """\
F0101 10:00:01.075587  157988 client.h:77] Terminating process because the JAX distributed service detected fatal \
errors. This most likely indicates that another task died; see the other task logs for more details.
"""
# What is there beside the fault's own line: nothing, closed connections, a time-out, the launcher's summary, and how
# the store, gloo, the flight recorder, the batch system and JAX tell that somebody else failed.
AFTERMATH = {
    "alone": None,
    "peer-closed": (LOGS / "nccl-rank-exception" / "rank0.log").read_text(),
    "timed-out": (LOGS / "nccl-straggler" / "rank0.log").read_text(),
    "launcher": LAUNCHER,
    "store-lost": STORE_LOST,
    "gloo-closed": GLOO_CLOSED,
    "dump-signal": DUMP_SIGNAL,
    "batch-system": BATCH_SYSTEM,
    "jax": JAX,
}
WEAKEST = 0.5


def main() -> None:
    for card in load_catalogue().cards.values():
        for signature in card.signatures:
            if signature.role != "root" or signature.strength < WEAKEST:
                continue
            # What watches a job does not end it: such a fault has no aftermath in the ranks.
            beside = {"alone": None} if card.layer == "observability" else AFTERMATH
            for name, aftermath in beside.items():
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
