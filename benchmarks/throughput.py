#!/usr/bin/env python3
"""Measures how fast triage reads, side by side with ripgrep and bare Hyperscan, in one run.

    python benchmarks/throughput.py [--mib 1024] [--stream-gib 10] [--folder DIR]

The input is NCCL INFO and training output of many ranks with one fault near the end, read from the page cache. With
`--stream-gib` the same lines also come endlessly through standard input, to show that memory does not grow.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import hyperscan

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from firstfault.catalogue import load_catalogue
from firstfault.scan.patterns import build_patterns

MIB = 1024 * 1024

ROOT = Path(__file__).resolve().parents[1]

TEMPLATES = (
    "{host}:{pid}:{tid} [{dev}] NCCL INFO Channel {ch:02d}/0 : {a}[{dev}] -> {b}[{dev}] [send] via NET/Socket/0\n",
    "{host}:{pid}:{tid} [{dev}] NCCL INFO Channel {ch:02d}/0 : {a}[{dev}] -> {b}[{dev}] [receive] via NET/Socket/0\n",
    "{host}:{pid}:{tid} [{dev}] NCCL INFO Trees [{ch}] {a}/-1/-1->{b}->-1\n",
    (
        "{host}:{pid}:{tid} [{dev}] NCCL INFO AllReduce: opCount {n:x} sendbuff 0x7f{n:010x} recvbuff 0x7f{n:010x}"
        " count {n} datatype 7 op 0 root 0 comm 0x55{n:08x} [nranks=64] stream 0x56{n:08x}\n"
    ),
    (
        "[rank{a}]: 2026-03-01 10:{m:02d}:{s:02d},{ms:03d} INFO trainer step {n} loss 2.{ms:03d} grad_norm 0.{ms:03d}"
        " lr 3.0e-4 tokens/s {n} mfu 0.41\n"
    ),
    (
        "[rank{a}]: 2026-03-01 10:{m:02d}:{s:02d},{ms:03d} DEBUG dataloader prefetch queue {ch} batches, worker {b}"
        " idle {ms} ms\n"
    ),
    (
        "2026-03-01T10:{m:02d}:{s:02d}.{ms:03d}Z INFO metrics gpu={dev} util=97 mem_used=71203MiB power=688W temp=61C"
        " error_count=0 retries=0\n"
    ),
)
FAULT = (
    "[rank5]:[E301 10:59:01.486305774 ProcessGroupNCCL.cpp:629] [Rank 5] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum=80, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600081 milliseconds"
    " before timing out.\n"
)


def block(size: int, seed: int) -> bytes:
    """About `size` bytes of lines, none like another."""
    rng = random.Random(seed)
    lines: list[str] = []
    length = 0
    while length < size:
        n = rng.randrange(1 << 24)
        rank = rng.randrange(64)
        line = rng.choice(TEMPLATES).format(
            host=f"gpu-node-{rank // 8:02d}", pid=4000 + rank, tid=n % 60000, dev=rank % 8, ch=n % 24, a=rank,
            b=(rank + 1) % 64, n=n, m=n % 60, s=n // 60 % 60, ms=n % 1000,
        )  # fmt: skip
        lines.append(line)
        length += len(line)
    return "".join(lines).encode()


def make_input(folder: Path, mib: int) -> Path:
    """Write the file: 32 MiB of lines, repeated; one fault near the end."""
    path = folder / "train.log"
    # In a process of its own: the peak memory of a child counts from what its parent held.
    if (maker := os.fork()) == 0:
        piece = block(min(32, mib) * MIB, 0)
        with path.open("wb") as file:
            for _ in range(max(1, mib // 32)):
                file.write(piece)
            file.write(FAULT.encode())
        os._exit(0)
    os.waitpid(maker, 0)
    return path


def timed(run: object, size: int, repeats: int = 3) -> tuple[float, float]:
    """(best GB/s, seconds of the best)."""
    best = min(_once(run) for _ in range(repeats))
    return size / best / 1e9, best


def _once(run: object) -> float:
    begin = time.perf_counter()
    run()  # type: ignore[operator]
    return time.perf_counter() - begin


def for_ripgrep(row: object) -> str:
    """The pattern as ripgrep reads it: no names of groups, since all patterns go into one expression."""
    plain = re.sub(r"\(\?P<\w+>", "(?:", row.superset)  # type: ignore[attr-defined]
    plain = re.sub(r"(?<!\\)\{(?!\d)", r"\{", plain)
    # Escapes that ripgrep does not know.
    plain = re.sub(r"\\(.)", lambda found: found[1] if found[1] in "<>\"'!@%=:;,/ " else found[0], plain)
    return f"(?i:{plain})" if row.ignore_case else plain  # type: ignore[attr-defined]


def ripgrep(path: Path, patterns: Path) -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        ["rg", "-c", "--no-config", "-f", patterns, "--regex-size-limit", "1G", "--dfa-size-limit", "1G", path],
        check=False, capture_output=True,
    )  # fmt: skip
    if done.returncode == 2:
        raise SystemExit(f"rg: {done.stderr[-300:].decode()}")
    return done


def whole_patterns() -> hyperscan.Database:
    """The patterns of all cards and signals, as they are, in one Hyperscan database; it takes some seconds to build."""
    rows = build_patterns(load_catalogue())
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = [hyperscan.HS_FLAG_MULTILINE | (hyperscan.HS_FLAG_CASELESS if row.ignore_case else 0) for row in rows]
    database.compile(expressions=[row.superset.encode() for row in rows], ids=list(range(len(rows))), flags=flags)
    return database


def bare_hyperscan(path: Path, database: hyperscan.Database) -> None:
    """Let it go over 4 MiB chunks, nothing done with the matches."""
    scratch = hyperscan.Scratch(database)
    hits: list[int] = []
    with path.open("rb") as file:
        while chunk := file.read(4 * MIB):
            database.scan(chunk, match_event_handler=lambda row, *_: hits.append(row), scratch=scratch)


def triage(path: Path | str, stdin: object = None, cache: Path | None = None) -> tuple[float, int]:
    """Run the command as a user would, with another cache where one is given: (seconds, peak resident bytes)."""
    command = [sys.executable, "-m", "firstfault", "triage", str(path), "--format", "json", "--output", os.devnull]
    begin = time.perf_counter()
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **({"XDG_CACHE_HOME": str(cache)} if cache else {})}
    process = subprocess.Popen(command, env=env, stdin=stdin)  # type: ignore[arg-type]
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return time.perf_counter() - begin, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def stream(gib: int) -> None:
    """Feed lines through a pipe and print what triage needs for them."""
    reader, writer = os.pipe()
    if (maker := os.fork()) == 0:
        os.close(reader)
        piece = block(32 * MIB, 1)
        with os.fdopen(writer, "wb") as pipe:
            for _ in range(gib * 32):
                pipe.write(piece)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        seconds, peak = triage("-", pipe)
    os.waitpid(maker, 0)
    size = gib * 1024 * MIB
    print(f"{'triage - (pipe)':<38}{size / seconds / 1e9:>8.2f} GB/s  {size / 1e9:.1f} GB, peak {peak / MIB:.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--stream-gib", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=arguments.folder, prefix="firstfault-bench-"))
    try:
        # First: the peak memory of a child counts from what its parent held, and `measure` builds a large database.
        if arguments.stream_gib:
            stream(arguments.stream_gib)
        measure(folder, arguments.mib)
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, mib: int) -> None:
    path = make_input(folder, mib)
    size = path.stat().st_size
    rows = build_patterns(load_catalogue())
    patterns = folder / "patterns"
    patterns.write_text("\n".join(for_ripgrep(row) for row in rows))
    subprocess.run(["cat", path], check=True, stdout=subprocess.DEVNULL)  # into the page cache
    triage(path)  # the compiled patterns into the cache
    print(f"{size / 1e9:.2f} GB, {len(rows)} patterns, {os.cpu_count()} cores, best of 3\n")
    seconds = [triage(path) for _ in range(3)]
    best, peak = min(seconds)
    print(f"{'triage (from process start)':<38}{size / best / 1e9:>8.2f} GB/s  {best:.2f} s, peak {peak / MIB:.0f} MiB")
    database = whole_patterns()
    speed, took = timed(lambda: bare_hyperscan(path, database), size)
    print(f"{'Hyperscan, whole patterns, one core':<38}{speed:>8.2f} GB/s  {took:.2f} s")
    if shutil.which("rg"):
        speed, took = timed(lambda: ripgrep(path, patterns), size)
        print(f"{'rg -c -f, same patterns':<38}{speed:>8.2f} GB/s  {took:.2f} s")
    small = folder / "small.log"
    with path.open("rb") as file:
        small.write_bytes(file.read(MIB // 64))
    again = min(triage(small)[0] for _ in range(3))
    first = min(triage(small, cache=folder / f"cache-{turn}")[0] for turn in range(3))
    print(f"{'16 KiB':<38}{again:>8.2f} s, first start with an empty cache {first:.2f} s")
    speed, took = timed(lambda: subprocess.run(["wc", "-l", path], check=False, capture_output=True), size)
    print(f"{'wc -l':<38}{speed:>8.2f} GB/s  {took:.2f} s")


if __name__ == "__main__":
    main()
