"""The answers of NCCL's RAS service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scan.reading import read, texts


def rank(number: int, count: int = 10, **status) -> dict:
    return {
        "rank": number, "host": "10.0.0.1", "pid": 100 + number, "cuda_dev": 0, "nvml_dev": 0,
        "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False, **status},
        "collective_counts": {"AllGather": 0, "AllReduce": count},
    }  # fmt: skip


def answer(ranks: list[dict], missing: list[dict] = (), size: int = 2) -> dict:
    return {
        "nccl_version": "2.28.9",
        "communicators_count": 1,
        "communicators": [{"hash": "0xcf26", "size": size, "ranks": ranks, "missing_ranks": list(missing)}],
    }


MISSING = {
    "rank": 1,
    "host": "10.0.0.2",
    "pid": 7,
    "cuda_dev": 0,
    "nvml_dev": 0,
    "status": {"unresponsive": True, "considered_dead": False},
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (answer([rank(0), rank(1)]), ["nccl-ras healthy communicators=1"]),
        (answer([rank(0)], [MISSING]), ["nccl-ras missing ranks=1 comm=0xcf26 size=2"]),
        (answer([rank(0, 101), rank(1, 100)]), ["nccl-ras count-mismatch ranks=1 comm=0xcf26 op=AllReduce low=100 high=101"]),
        (answer([rank(0), rank(1, async_error=6)]), ["nccl-ras async-error ranks=1 comm=0xcf26 error=remote"]),
        (answer([rank(0, async_error=5), rank(1, async_error=7)]), ["nccl-ras async-error ranks=0 comm=0xcf26 error=usage"]),
        (answer([rank(0), rank(1, init_state=7)]), ["nccl-ras init-incomplete ranks=1 comm=0xcf26"]),
        (answer([rank(0)], [{**MISSING, "status": {"unresponsive": False, "considered_dead": False}}]), ["nccl-ras left ranks=1 comm=0xcf26"]),
    ],
)  # fmt: skip
def test_json(value, expected):
    """One finding for each thing that is wrong; a rank that finished with the communicator is no fault."""
    kind, lines = read(json.dumps(value, indent=2))
    assert kind == "nccl-ras"
    assert [line.text for line in lines] == expected


def test_the_quirks_of_2_28_9():
    """`OK` on the first line, and no comma behind `nvml_dev` of a missing rank."""
    text = "OK\n" + json.dumps(answer([rank(0)], [MISSING]), indent=2).replace(
        '"nvml_dev": 0,\n          "status": {\n            "unre',
        '"nvml_dev": 0\n          "status": {\n            "unre',
    )
    with pytest.raises(json.JSONDecodeError):
        json.loads(text[3:])
    assert texts(text) == ["nccl-ras missing ranks=1 comm=0xcf26 size=2"]


HEAD = """\
NCCL version 2.28.9 compiled with CUDA 13.0
CUDA runtime version 13000, driver version 13000

Job summary
===========

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
"""
# From NVIDIA's guide to RAS, and the printf formats of src/ras/client_support.cc.
TEXTS = {
    "healthy": (
        """\
    0         8         4         1         4        32   RUNNING      OK
""",
        ["nccl-ras healthy communicators=8"],
    ),
    "incomplete": (
        """\
    0         1         4       7-8        32        32   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21
""",
        ["nccl-ras missing ranks=21 comm=cf264af53edbe986", "nccl-ras missing processes=1"],
    ),
    "dead": (
        """\
    0         1         2       3-4         8         7   RUNNING  INCOMPLETE

DEAD
  1 job process is considered dead (unreachable via the RAS network)

#0-0 (1bdb83b038775869) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 7 -- GPU 3 managed by process 3748990 on node node1
""",
        ["nccl-ras missing ranks=7 comm=1bdb83b038775869", "nccl-ras missing processes=1"],
    ),
    "mismatch": (
        """\
    0         1         4         8        32        32   RUNNING  MISMATCH

Warnings
========

#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different AllReduce operation counts
  30 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 4 -- GPU 4 managed by process 1 on node a
  Rank 5 -- GPU 5 managed by process 2 on node a
""",
        ["nccl-ras count-mismatch ranks=4-5 comm=cf264af53edbe986 op=AllReduce low=6649 high=6650"],
    ),
    "one rank launched nothing": (
        """\
    0         1         4         8        32        32   RUNNING  MISMATCH

#0-0 (cf26) MISMATCH
  Communicator ranks have different AllGather operation counts
  31 ranks have launched up to operation 3
  Rank 9 has not launched any operations -- GPU 1 managed by process 1 on node a
""",
        ["nccl-ras count-mismatch ranks=9 comm=cf26 op=AllGather low=0 high=3"],
    ),
    "starting": (
        """\
    0         1         4         8        32        32  MISMATCH  MISMATCH

#0-0 (cf26) MISMATCH
  Communicator ranks have different status
  31 ranks have status RUNNING
  Rank 3 has status INIT -- GPU 1 managed by process 1 on node a
""",
        ["nccl-ras init-incomplete ranks=3 comm=cf26"],
    ),
}


@pytest.mark.parametrize("what", TEXTS)
def test_text(what):
    """All lines are handed on, the findings follow."""
    body, expected = TEXTS[what]
    kind, lines = read(HEAD + body)
    assert kind == "nccl-ras"
    assert [line.text for line in lines if line.text.startswith("nccl-ras")] == expected
    assert any(line.text.startswith("NCCL version 2.28.9") and line.line == 1 for line in lines)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("ras_healthy.json", ["nccl-ras healthy communicators=2"]),
        ("ras_healthy.txt", ["nccl-ras healthy communicators=2"]),
        (
            "ras_stopped.json",
            [
                "nccl-ras missing ranks=1 comm=0xaf2ce822c4fb65a9 size=2",
                "nccl-ras missing ranks=1 comm=0xe534ed1ef63a12ff size=2",
            ],
        ),
        ("ras_stopped.txt", ["nccl-ras missing ranks=1 comm=af2ce822c4fb65a9", "nccl-ras missing processes=1"]),
    ],
)
def test_real_answers(file, expected):
    """What NCCL 2.28.9 really sent, before and after rank 1 was stopped."""
    found = texts((Path(__file__).parent / "fixtures" / "nccl_ras" / file).read_bytes())
    assert [text for text in found if text.startswith("nccl-ras")] == expected


def test_communicators_without_ranks_are_not_healthy():
    """Junk in the shape of an answer lists nobody who could be well."""
    junk = {"nccl_version": [], "communicators": [{"ranks": {"a": {}}, "size": "x"}]}
    assert not any("healthy" in text for text in texts(json.dumps(junk).encode()))
