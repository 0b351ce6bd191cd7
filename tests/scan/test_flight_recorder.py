"""Flight-recorder dumps: every schema version, hostile pickles, and what many ranks together prove."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import pickle
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.errors import InputError, LimitError
from firstfault.model.ranks import rank_text
from firstfault.scan.readers import detect_reader
from firstfault.scan.readers.safe_pickle import load_plain
from scan.reading import joint, read, texts

FIXTURES = Path(__file__).parent / "fixtures" / "flight_recorder"


def entry(seq: int, op: str = "all_reduce", state: str = "started", *, size: int = 4, group: str = "0", **more) -> dict:
    """Return an entry as torch 2.9 writes it."""
    return {
        "record_id": seq, "pg_id": int(group), "process_group": (group, "default_pg" if group == "0" else "tp"),
        "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq, "is_p2p": False, "profiling_name": f"nccl:{op}",
        "input_sizes": [[size]], "input_dtypes": ["Float"], "output_sizes": [[size]], "output_dtypes": ["Float"],
        "state": state, "retired": state == "completed", "timeout_ms": 600000,
        "time_created_ns": 1_714_564_800_000_000_000 + seq, "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "frames": [{"name": "all_reduce", "filename": "/opt/torch/distributed/x.py", "line": 1}, {"name": "step", "filename": "/app/train.py", "line": 55}],
        **more,
    }  # fmt: skip


def dump(*entries: dict, groups: dict[str, list[int]] | None = None, version: str = "2.10") -> dict:
    """Return a dump around entries."""
    groups = groups or {"0": [0, 1, 2]}
    return {
        "version": version,
        "pg_config": {name: {"name": name, "desc": "x", "ranks": str(ranks)} for name, ranks in groups.items()},
        "pg_status": {name: {"last_enqueued_collective": max((e["collective_seq_id"] for e in entries if e["process_group"][0] == name), default=-1)} for name in groups},
        "entries": list(entries),
    }  # fmt: skip


def findings(*dumps: dict | list | None) -> list[str]:
    """Return the joint findings for the dumps of ranks 0, 1, …; None is a rank without a dump."""
    sources = {
        f"comm_lib_trace_rank_{rank}": pickle.dumps(value, protocol=2)
        for rank, value in enumerate(dumps)
        if value is not None
    }
    return [text.removeprefix("flight-recorder ") for _, text in joint(sources)]


DONE = [entry(n, state="completed") for n in (1, 2)]


def test_a_rank_that_never_arrived_is_named():
    """The others wait in collective 3, rank 1 never enqueued it; how far they ran ahead does not matter."""
    assert findings(dump(*DONE, entry(3), entry(4, state="scheduled")), dump(*DONE), dump(*DONE, entry(3))) == [
        "never-arrived ranks=1 pg=0 seq=3 op=all_reduce waiting=0,2",
        "culprit ranks=1 because=never-arrived pg=0 seq=3 op=all_reduce",
    ]


def test_a_rank_that_ran_ahead_less_far_is_not_blamed():
    """All wait in collective 3; that rank 1 enqueued fewer behind it says nothing."""
    found = findings(dump(*DONE, entry(3), entry(4)), dump(*DONE, entry(3)), dump(*DONE, entry(3), entry(4)))
    assert found == ["all-started ranks=0-2 pg=0 seq=3 op=all_reduce state=started"]


def test_mismatches_blame_the_smaller_side():
    """Another operation, another size, another type; with two equal sides both are named."""
    assert findings(dump(*DONE, entry(3)), dump(*DONE, entry(3, "all_gather")), dump(*DONE, entry(3)))[0] == (
        "type-mismatch ranks=1 pg=0 seq=3 op=all_reduce sides=all_reduce:0,2;all_gather:1"
    )
    assert findings(dump(entry(1, size=8)), dump(entry(1)), dump(entry(1)))[0] == (
        "size-mismatch ranks=0 pg=0 seq=1 op=all_reduce sides=[4]:1-2;[8]:0"
    )
    assert findings(dump(entry(1)), dump(entry(1, input_dtypes=["Half"])), None)[0] == (
        "dtype-mismatch ranks=0-1 pg=0 seq=1 op=all_reduce sides=[Float]:0;[Half]:1"
    )


def test_sizes_that_may_differ_are_no_mismatch():
    """All-to-all moves what each pair needs; shapes of equal size are equal."""
    uneven = [dump(entry(1, "all_to_all", size=rank + 1)) for rank in range(3)]
    assert findings(*uneven) == ["all-started ranks=0-2 pg=0 seq=1 op=all_to_all state=started"]
    shapes = [dump(entry(1, input_sizes=[shape], state="completed")) for shape in ([2, 2], [4], [1, 4])]
    assert findings(*shapes) == []


def test_states_tell_a_stuck_stream_from_a_stuck_network():
    """Started everywhere: transport. Scheduled on one rank only: its GPU never got to it. Completed on some: a loss."""
    assert findings(*[dump(entry(1))] * 3) == ["all-started ranks=0-2 pg=0 seq=1 op=all_reduce state=started"]
    assert findings(dump(entry(1)), dump(entry(1, state="scheduled")), dump(entry(1))) == [
        "not-started ranks=1 pg=0 seq=1 op=all_reduce",
        "culprit ranks=1 because=not-started pg=0 seq=1 op=all_reduce",
    ]
    assert findings(dump(entry(1)), dump(entry(1, state="completed")), dump(entry(1, state="completed"))) == [
        "partly-completed ranks=0 pg=0 seq=1 op=all_reduce"
    ]


def test_a_missing_dump_is_said_and_keeps_us_from_blaming():
    """A killed rank leaves no dump: it is named as such, nobody else is called the culprit."""
    assert findings(dump(entry(1)), None, dump(entry(1))) == [
        "no-dump ranks=1 pg=0 seq=1 op=all_reduce waiting=0,2",
    ]
    found = findings(dump(*DONE, entry(3)), None, dump(*DONE))
    assert found[:2] == [
        "no-dump ranks=1 pg=0 seq=3 op=all_reduce waiting=0",
        "never-arrived ranks=2 pg=0 seq=3 op=all_reduce waiting=0",
    ]
    assert not any(line.startswith("culprit") for line in found)


def test_the_root_over_several_groups():
    """Rank 1 is late in the data-parallel group because it waits for rank 2 in its tensor-parallel group."""
    groups0, groups1, groups2 = {"0": [0, 1]}, {"0": [0, 1], "1": [1, 2]}, {"1": [1, 2]}
    found = findings(
        dump(entry(1), groups=groups0),
        dump(entry(7, group="1"), groups=groups1),
        dump(entry(6, group="1", state="completed"), groups=groups2),
    )
    assert "never-arrived ranks=1 pg=0 seq=1 op=all_reduce waiting=0" in found
    assert "never-arrived ranks=2 pg=1 seq=7 op=all_reduce waiting=1" in found
    assert found[-1] == "culprit ranks=2 because=never-arrived pg=1 seq=7 op=all_reduce"


def test_point_to_point_without_the_other_end():
    """Rank 1 waits to receive from rank 0, which never sent; a matched pair says nothing."""
    receive = entry(1, "recv 1<-0", is_p2p=True, p2p_seq_id=5)
    assert findings(dump(), dump(receive), dump()) == [
        "p2p-unmatched ranks=0 pg=0 seq=5 op=recv_1<-0",
        "culprit ranks=0 because=p2p-unmatched pg=0 seq=5 op=recv_1<-0",
    ]
    assert findings(dump(entry(1, "send 0->1", is_p2p=True)), dump(receive), dump()) == []


def test_a_thousand_ranks():
    """One rank of 1,024 is missing from the collective."""
    ranks = {"0": list(range(1024))}
    waiting = dump(entry(412), groups=ranks)
    found = findings(*[dump(entry(411, state="completed"), groups=ranks) if n == 517 else waiting for n in range(1024)])
    assert found[0] == "never-arrived ranks=517 pg=0 seq=412 op=all_reduce waiting=0-516,518-1023"


@pytest.mark.parametrize("version", ["2.1", "2.4", "2.9", "2.10", "list of 2.2"])
@pytest.mark.parametrize("form", ["pickle", "json"])
def test_every_schema_version(version, form):
    """The bare list of torch 2.2, the dicts since; as pickle and as JSON; a tuple or a list for the group."""
    values = []
    for rank in range(3):
        value = copy.deepcopy(dump(*DONE, *([] if rank == 1 else [entry(3)]), version=version))
        if version == "2.1":
            for item in value["entries"]:
                del item["timeout_ms"]
            del value["pg_status"]
        if version == "list of 2.2":
            value = value["entries"]
            for item in value:
                item["seq_id"] = item.pop("collective_seq_id")
                del item["process_group"], item["p2p_seq_id"], item["is_p2p"]
        values.append(value)
    names = {f"/tmp/nccl_trace_rank_{rank}": value for rank, value in enumerate(values)}
    encode = json.dumps if form == "json" else lambda value: pickle.dumps(value, protocol=2)
    found = joint({name: encode(value) for name, value in names.items()})
    assert found[0] == (
        "/tmp/nccl_trace_rank_1",
        "flight-recorder never-arrived ranks=1 pg=0 seq=3 op=all_reduce waiting=0,2",
    )
    kind, lines = read(encode(values[0]), "/tmp/nccl_trace_rank_0")
    assert kind == "flight-recorder"
    assert [line.text for line in lines][:2] == [
        f"flight-recorder dump rank=0 version={'2.2-list' if 'list' in version else version} entries=3",
        "flight-recorder pending rank=0 pg=0 seq=3 op=all_reduce state=started frame=/app/train.py:55 step",
    ]
    assert lines[1].rank == 0
    assert lines[1].time == pytest.approx(1714564800.0)


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("never-arrived", "never-arrived ranks=2 pg=default_pg seq=4 op=all_reduce waiting=0-1"),
        ("type-mismatch", "type-mismatch ranks=1 pg=default_pg seq=4 op=all_reduce sides=all_reduce:0,2;all_gather:1"),
    ],
)
def test_dumps_of_real_gloo_processes(scenario, expected):
    """Three real ranks (torch 2.13, gloo): gloo never leaves the state `scheduled`, and retires failed work too."""
    sources = {path.name: path.read_bytes() for path in FIXTURES.glob(f"{scenario}_rank_*.json")}
    assert len(sources) == 3
    assert joint(sources)[0][1] == f"flight-recorder {expected}"


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("type", ["type-mismatch ranks=0-1 pg=0 seq=6 op=all_reduce sides=all_reduce:0;_all_gather_base:1"]),
        ("size", ["size-mismatch ranks=0-1 pg=0 seq=6 op=all_reduce sides=[1024]:0;[2048]:1"]),
        (
            "sub",
            [
                "never-arrived ranks=0 pg=0 seq=6 op=all_reduce waiting=1",
                "never-arrived ranks=1 pg=1 seq=2 op=all_reduce waiting=0",
                "cross-wait ranks=0-1 pg=0 seq=6 op=all_reduce",
            ],
        ),
    ],
)
def test_dumps_of_real_nccl_processes(scenario, expected):
    """Two real ranks (torch 2.11, NCCL 2.28.9) whose watchdog dumped: no timing, so waiting work is `scheduled`."""
    sources = {path.name: path.read_bytes() for path in FIXTURES.glob(f"{scenario}_rank_?")}
    assert len(sources) == 2
    found = [text.removeprefix("flight-recorder ") for _, text in joint(sources)]
    assert found[: len(expected)] == expected


class Evil:
    """A pickle of this runs a command when it is loaded."""

    def __reduce__(self):
        return os.system, ("false",)


HOSTILE = {
    "a function": (pickle.dumps({"entries": [Evil()]}, protocol=2), InputError, r"load \w+\.system .* could run code"),
    "a function, protocol 4": (
        pickle.dumps({"entries": [Evil()]}, protocol=4),
        InputError,
        r"load \w+\.system .* could run code",
    ),
    "a global by opcode": (
        b"\x80\x02}(X\x07\x00\x00\x00entriescbuiltins\neval\nu.",
        InputError,
        r"load builtins\.eval",
    ),
    "an instance": (b"\x80\x02}(ios\nsystem\n.", InputError, r"load os\.system"),
    "a global hidden in an integer": (b"\x80\x02}J\x00\x00\x00\x00cos\nsystem\n.", InputError, r"load os\.system"),
    "a persistent id": (b"\x80\x02}(X\x07\x00\x00\x00entriesU\x01aQu.", InputError, "BINPERSID"),
    "a memo of 16 GiB": (b"\x80\x02}r" + struct.pack("<I", 0x7FFFFFFF) + b".", LimitError, "more memory"),
    "a memo of 64 GiB by text": (b"\x80\x02}p4000000000\n.", InputError, "PUT"),
    "a string of 8 EiB": (b"\x80\x04\x8e" + struct.pack("<Q", 2**63 - 1) + b"x", InputError, "ends too early"),
    "a buffer": (b"\x80\x05\x96\x02\x00\x00\x00\x00\x00\x00\x00ab\x98\x98.", InputError, "BYTEARRAY8"),
    "an extension code": (b"\x80\x02\x82\x01.", InputError, "EXT1"),
    "a cut dump": (pickle.dumps(dump(*DONE), protocol=2)[:-40], InputError, "not a readable pickle"),
    "nothing behind the head": (b"\x80\x02}", InputError, "ends too early"),
    "no such opcode": (b"\x80\x02}\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff.", InputError, "instruction 0xff"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_pickles_get_a_clear_error(what):
    """No class or function is ever looked up, no absurd memory is taken; the message names the file and the reason."""
    data, error, message = HOSTILE[what]
    with pytest.raises(error, match=message) as caught:
        load_plain(data, "trace_rank_0")
    assert "trace_rank_0" in str(caught.value)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_pickles_of_python_are_read(protocol):
    """A dump that was loaded and written again by Python has other instructions, but the same data."""
    value = {
        **dump(*DONE),
        "more": [None, True, 1.5, -1, 300, 70000, 2**40, -(2**100), "é" * 300, (1,)],
    }
    assert load_plain(pickle.dumps(value, protocol=protocol), "x") == value


@given(st.binary(max_size=300))
def test_any_bytes_are_data_or_an_error(data):
    """Random pickles of either protocol never do anything else."""
    for head in (b"\x80\x02}", b"\x80\x04"):
        with contextlib.suppress(InputError):
            load_plain(head + data, "x")


def test_rank_sets_as_text():
    """Ranges are inclusive and sorted; an empty set has a word."""
    assert rank_text([7, 0, 1, 2, 3, 3]) == "0-3,7"
    assert rank_text([]) == "none"


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_runs_code_is_refused_by_its_instructions(protocol):
    """No protocol and no missing name of a dump lets hostile instructions pass for text."""
    data = pickle.dumps([Evil(), "nothing of a dump"], protocol=protocol)
    reader = detect_reader(data)
    assert reader is not None
    with pytest.raises(InputError, match=r"load \w+\.system .* could run code"):
        list(reader.read(io.BytesIO(data), "x"))


@pytest.mark.parametrize("text", [b"all ranks are up.", b"cuda\nis fine\n.", b"(no output).", b"I was there."])
def test_text_that_ends_with_a_full_stop_is_no_pickle(text):
    """The last byte of a pickle is a full stop too."""
    assert detect_reader(text) is None


def test_a_dump_whose_entries_are_no_operations_is_refused():
    """Lists of lists are not taken for an empty dump."""
    with pytest.raises(InputError, match="none of the dump's entries is an operation"):
        texts(pickle.dumps(dump() | {"entries": [[[]]] * 3}, protocol=2))


@pytest.mark.parametrize("rank", [False, "0", None, 2.5, {"a": []}])
def test_members_that_are_no_ranks(rank):
    """Found by fuzzing: a truth value, or anything else, in place of a rank is no crash."""
    broken = dump(*DONE, entry(3))
    broken["pg_config"]["0"]["ranks"] = [rank]
    assert findings(broken) == ["all-started ranks=0 pg=0 seq=3 op=all_reduce state=started"]
