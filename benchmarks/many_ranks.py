#!/usr/bin/env python3
"""Measures triage on the logs of a thousand ranks of which one is the culprit, made from a recorded pair.

    python benchmarks/many_ranks.py [--ranks 1024] [--mib 200] [--one-file]

The logs of `examples/logs/nccl-straggler` are multiplied: every rank but one is the waiting one, one is the late one.
With `--one-file` all ranks write into one file, interleaved, each line with its rank before it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAIR = ROOT / "examples" / "logs" / "nccl-straggler"
FILLER = "[rank{rank}]: 2026-03-01 10:{m:02d}:{s:02d},000 DEBUG dataloader batch {n} queue depth {s} worker {m}\n"


def log_of(rank: int, ranks: int, culprit: int, size: int) -> str:
    """The log of one rank, filled up to a size with lines of the data loader before the fault."""
    text = (PAIR / f"rank{int(rank == culprit)}.log").read_text()
    own = str(int(rank == culprit))
    text = re.sub(rf"\[rank ?{own}\]", lambda found: found[0].replace(own, str(rank)), text, flags=re.IGNORECASE)
    text = re.sub(rf"\b(rank[ =]){own}\b", rf"\g<1>{rank}", text).replace("ws=2", f"ws={ranks}")
    text = re.sub(r"\bn[Rr]anks 2\b", lambda found: found[0].replace("2", str(ranks)), text)
    text = text.replace("train-master-0", f"node-{rank // 8}").replace("train-worker-0", f"node-{rank // 8}")
    text = re.sub(r"\b10\.77\.0\.", f"10.77.{rank // 8}.", text)
    head, _, tail = text.partition(f"[rank {rank}] iter 1")
    filler = "".join(FILLER.format(rank=rank, n=n, m=n // 60 % 60, s=n % 60) for n in range(size // 86))
    return f"{head}{filler}[rank {rank}] iter 1{tail}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--mib", type=int, default=200)
    parser.add_argument("--one-file", action="store_true")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="firstfault-ranks-"))
    culprit = arguments.ranks // 2 + 5
    try:
        # In a process of its own: the peak memory of a child counts from what its parent held.
        if (maker := os.fork()) == 0:
            make_logs(folder, arguments.ranks, culprit, arguments.mib * 1024 * 1024, one_file=arguments.one_file)
            os._exit(0)
        os.waitpid(maker, 0)
        measure(folder, culprit)
    finally:
        shutil.rmtree(folder)


def make_logs(folder: Path, ranks: int, culprit: int, size: int, *, one_file: bool) -> None:
    """Write the logs of all ranks: a file each, or one file with their lines in turn."""
    logs = [log_of(rank, ranks, culprit, size // ranks) for rank in range(ranks)]
    if not one_file:
        for rank, log in enumerate(logs):
            (folder / f"rank-{rank}.log").write_text(log)
        return
    with (folder / "job.log").open("w") as file:
        pending = [(rank, iter(log.splitlines())) for rank, log in enumerate(logs)]
        while pending:
            pending = [(rank, lines) for rank, lines in pending if write_next(file, rank, lines)]


def write_next(file: object, rank: int, lines: object) -> bool:
    """Write the next line of a rank, with the rank before it as srun does; False when it has none left."""
    line = next(lines, None)  # type: ignore[call-overload]
    if line is None:
        return False
    file.write(f"{rank}: {line}\n")  # type: ignore[attr-defined]
    return True


def measure(folder: Path, culprit: int) -> None:
    """Run the command three times and print time, memory and what it said."""
    command = [sys.executable, "-m", "firstfault", "triage", folder, "--format", "json", "--output", folder / "out"]
    best, peak = float("inf"), 0
    for _ in range(3):
        begin = time.perf_counter()
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
        _, _, usage = os.wait4(process.pid, 0)
        best, peak = min(best, time.perf_counter() - begin), max(peak, usage.ru_maxrss // 1024)
        report = json.loads((folder / "out").read_text())
        (folder / "out").unlink()
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{size / 1e6:.0f} MB in {best:.2f} s, peak {peak} MiB; culprit is rank {culprit}")
    print(report["status"], report["verdict"] and report["verdict"]["cause"], report["verdict"]["summary"])
    for group in report["ladder"]["groups"]:
        print(f"  {group['ranks']}: reached {group['reached']}, stopped at {group['stopped_at']}: {group['why']}")


if __name__ == "__main__":
    main()
