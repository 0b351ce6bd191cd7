"""Recorded pairs multiplied into jobs of many ranks: one is the culprit, and how the logs were gathered does not matter."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from firstfault.diagnosis import triage

LOGS = Path(__file__).parents[2] / "examples" / "logs"
RANKS, CULPRIT = 40, 25
# Which of the pair is the odd one.
ODD = {
    "gloo-rank-exception": 1,
    "nccl-bootstrap-blocked": 1,
    "nccl-collective-mismatch": 1,
    "nccl-cuda-oom": 1,
    "nccl-interface": 1,
    "nccl-interface-loopback": 0,
    "nccl-rank-exception": 1,
    "nccl-rank-killed": 1,
    "nccl-straggler": 1,
}


def log_of(text: str, recorded: int, rank: int) -> str:
    """The log as a rank of the large job would have written it."""
    text = re.sub(
        rf"\[rank ?{recorded}\]", lambda found: found[0].replace(str(recorded), str(rank)), text, flags=re.IGNORECASE
    )
    text = re.sub(rf"\b(rank[ =]){recorded}\b", rf"\g<1>{rank}", text).replace("ws=2", f"ws={RANKS}")
    text = re.sub(r"\bn[Rr]anks 2\b", lambda found: found[0].replace("2", str(RANKS)), text)
    text = re.sub(r"\b10\.77\.0\.", f"10.77.{rank // 8}.", text)
    return re.sub(r"\b(?:train|nccl)-(?:master|worker)-0\b", f"node-{rank // 8}", text)


def logs_of(name: str) -> list[str]:
    pair = [(LOGS / name / f"rank{rank}.log").read_text() for rank in (0, 1)]
    odd = ODD[name]
    return [
        log_of(pair[recorded], recorded, rank)
        for rank in range(RANKS)
        for recorded in [odd if rank == CULPRIT else 1 - odd]
    ]


@pytest.mark.parametrize("name", ODD)
def test_one_culprit_among_many(name, tmp_path):
    """The cause of the pair is the cause of the job: a file for each rank, and one into which srun wrote all lines."""
    logs = logs_of(name)
    files, one = tmp_path / "files", tmp_path / "job.log"
    files.mkdir()
    for rank, text in enumerate(logs):
        (files / f"rank-{rank}.log").write_text(text)
    rows = itertools.zip_longest(*(text.splitlines() for text in logs))
    one.write_text("".join(f"{rank}: {line}\n" for row in rows for rank, line in enumerate(row) if line is not None))
    expected = triage([LOGS / name]).verdict.cause
    for source in (files, one):
        assert triage([source]).verdict.cause == expected, source.name


def test_who_called_another_collective_is_named(tmp_path):
    """Forty ranks wait, thirty-nine of them in the same call: the fortieth is said first, and its line is shown."""
    for rank, text in enumerate(logs_of("nccl-collective-mismatch")):
        (tmp_path / f"rank-{rank}.log").write_text(text)
    verdict = triage([tmp_path]).verdict
    assert f"They wait in ALLGATHER of 4 elements (rank {CULPRIT}), ALLREDUCE of 4 elements (ranks 0-24, 26-39)." in (
        verdict.summary
    )
    assert any(item.rank == CULPRIT and "OpType=ALLGATHER" in item.text for item in verdict.evidence)
