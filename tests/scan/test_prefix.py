"""Prefixes of shippers, launchers and libraries are read in any order, and never invented."""

from __future__ import annotations

import pytest

from firstfault.scan.prefix import parse_prefix, rank_from_name


@pytest.mark.parametrize(
    ("line", "rank", "message"),
    [
        ("[rank3]: RuntimeError: x", 3, "RuntimeError: x"),
        ("[default3]:[rank11]:[E816 01:45:40.183009389 ProcessGroupNCCL.cpp:607] [Rank 11] text", 11, "text"),
        ("[PG ID 0 PG GUID 0(default_pg) Rank 7] text", 7, "text"),
        ("[1,5]<stderr>:text", 5, "text"),
        ("3: Traceback (most recent call last):", 3, "Traceback (most recent call last):"),
        ("(Worker[rank=5] pid=20117, ip=10.4.0.12) text", 5, "text"),
        ("[pod/job-0/main] 2026-01-01T10:00:00.123456789Z [rank2]: text", 2, "text"),
        ("[rank: 4] text", 4, "text"),
        ("plain text", None, "plain text"),
        ("[2026-11-30 08:01:32] h:1:2 [0] bootstrap.cc:114 NCCL WARN x", None, "bootstrap.cc:114 NCCL WARN x"),
        ("10.0.3.177: text", None, "text"),
        ("2024-05-01T10:00:00.123456789Z stderr F         HW Slowdown : Active", None, "HW Slowdown : Active"),
        ("> [rank3]: text", 3, "text"),
        (">>> torch.cuda.is_available()", None, ">>> torch.cuda.is_available()"),
        ("Dec  2 11:38:46 worker4 kernel: [  218.250408] NVRM: x", None, "NVRM: x"),
    ],
)
def test_rank_and_message(line, rank, message):
    """The rank is the global one where the line gives it, and the message begins after all prefixes."""
    prefix = parse_prefix(line)
    assert prefix.rank == rank
    assert line[prefix.start :] == message


@pytest.mark.parametrize(
    ("line", "time", "clock"),
    [
        ("1970-01-02T00:00:00Z x", 86400.0, ""),
        ("1970-01-02T02:00:00+02:00 x", 86400.0, ""),
        ("1970-01-02 00:00:00,250 - INFO - x", 86400.25, ""),
        ("[Fri Jan  2 00:00:01 1970] x", 86401.0, ""),
        ("[  199.234935] NVRM: x", 199.234935, "uptime"),
        ("[E102 00:00:01.5 socket.cpp:1] x", 63158401.5, "yearless"),
        ("E0102 00:00:01.500000   13973 client_config.go:667] x", 63158401.5, "yearless"),
        ('time="1970-01-02T00:00:00Z" level=info msg="x"', 86400.0, ""),
        ('{"level":"INFO","time":"1970-01-02T00:00:00Z","message":"x"', 86400.0, ""),
    ],
)
def test_times(line, time, clock):
    """Times come with the clock on which they may be compared."""
    prefix = parse_prefix(line)
    assert (prefix.time, prefix.clock) == (time, clock)


@pytest.mark.parametrize(
    ("name", "rank"), [("logs/rank-3.log", 3), ("a!nccl_trace_rank_12", 12), ("worker-1.log", None)]
)
def test_rank_from_name(name, rank):
    """Only a name that says "rank" names a rank."""
    assert rank_from_name(name) == rank
