"""Pickles that are no dumps are set aside, hostile ones refused, and none of either kind keeps us busy."""

from __future__ import annotations

import argparse
import collections
import decimal
import io
import os
import pickle
import types
import zipfile
from pathlib import Path

import pytest

from firstfault import triage
from firstfault.errors import InputError, LimitError
from firstfault.scan.readers import NotEvidenceError, detect_reader
from firstfault.scan.readers.pickle_code import loaded_objects
from firstfault.scan.readers.safe_pickle import load_plain

SG_BLOCK = Path(__file__).parents[2] / "examples" / "logs" / "sg-block"


class Evil:
    """A pickle of this runs a command when it is loaded."""

    def __reduce__(self):
        return os.system, ("false",)


def by_name(module, name):
    """A pickle of protocol 4 that loads this name."""
    texts = b"".join(b"\x8c" + bytes([len(text)]) + text.encode() + b"\x94" for text in (module, name))
    return b"\x80\x04" + texts + b"\x93\x94)R."


HARMLESS = {
    "settings": pickle.dumps({"lr": 0.1, "betas": (0.9, 0.99)}),
    "settings of protocol 0": pickle.dumps({"lr": 0.1, "betas": (0.9, 0.99)}, protocol=0),
    "an optimizer's state": pickle.dumps(collections.OrderedDict(step=1, lr=decimal.Decimal("0.1"))),
    "arguments": pickle.dumps([argparse.Namespace(a=1), types.SimpleNamespace(b={1, 2}), Path("x")]),
    "more than a head": pickle.dumps({"w": list(range(100_000))}),
    "entries of something else": pickle.dumps({"entries": [{"text": "x"}], "size": 1}),
    "a model of a library": by_name("sklearn.linear_model._base", "LinearRegression"),
    "an old checkpoint of PyTorch": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}q\x00(X\x01\x00"
    b"\x00\x00wq\x01ctorch._utils\n_rebuild_tensor_v2\nq\x02",
}
ATTACKS = {
    "a command": pickle.dumps([Evil()]),
    "a command of protocol 0": pickle.dumps([Evil(), "nothing of a dump"], protocol=0),
    "a shell": by_name("subprocess", "Popen"),
    "an evaluation": by_name("builtins", "eval"),
    "a way through a harmless module": by_name("collections", "abc.sys.modules"),
    "a way through a private name": by_name("collections", "_sys"),
    "a name from elsewhere": b"\x80\x04K\x01K\x02\x93\x94)R.",
}


@pytest.mark.parametrize("what", HARMLESS)
def test_a_pickle_that_is_no_dump_is_set_aside(tmp_path, what):
    """The verdict is that of the logs beside it, and so is the exit code: nothing was unreadable."""
    (tmp_path / "state.pkl").write_bytes(HARMLESS[what])
    report = triage([SG_BLOCK, tmp_path])
    assert report.problems == []
    assert [(Path(each.name).name, each.kind) for each in report.set_aside] == [("state.pkl", "pickle")]
    assert "state.pkl" not in {Path(each.name).name for each in report.sources}
    assert report.verdict is not None
    assert report.verdict.cause == triage([SG_BLOCK]).verdict.cause


@pytest.mark.parametrize("what", ATTACKS)
def test_an_attack_is_an_error_beside_the_verdict_of_the_others(tmp_path, what):
    (tmp_path / "state.pkl").write_bytes(ATTACKS[what])
    report = triage([SG_BLOCK, tmp_path])
    (problem,) = report.problems
    assert "state.pkl" in problem
    assert "could run code" in problem
    assert report.verdict is not None
    assert report.verdict.cause == triage([SG_BLOCK]).verdict.cause


def test_many_files_in_several_processes_are_set_aside_too(tmp_path):
    for number in range(80):
        (tmp_path / f"{number:02}.pkl").write_bytes(HARMLESS["settings"])
    report = triage([tmp_path])
    assert report.problems == []
    assert len(report.set_aside) == 80


def checkpoint(padding=b"FB"):
    """A zip as PyTorch writes it: data.pkl comes first, with a field of its own before it."""
    info = zipfile.ZipInfo("ckpt/data.pkl")
    info.extra = padding + b"\x05\x00ZZZZZ"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(info, b"\x80\x02}q\x00.")
        archive.writestr("ckpt/data/0", b"\0" * 4096)
    return stream.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        checkpoint(),
        b"\x40\0\0\0\0\0\0\0" + b'{"w":{"dtype":"F32"}}'.ljust(64) + b"\0" * 9,
        b"\x93NUMPY\x01\0v\0{'descr'",
    ],
    ids=["PyTorch", "safetensors", "NumPy"],
)
def test_weights_are_set_aside_as_one(tmp_path, data):
    (tmp_path / "model").write_bytes(data)
    report = triage([tmp_path])
    assert report.problems == []
    assert [Path(each.name).name for each in report.set_aside] == ["model"]
    assert report.sources == []


def test_an_archive_of_somebody_else_is_unpacked(tmp_path):
    """A zip that begins with a file of that name, without PyTorch's own field."""
    (tmp_path / "bundle.zip").write_bytes(checkpoint(padding=b"XX"))
    assert [each.name.partition("!")[2] for each in triage([tmp_path]).set_aside] == ["ckpt/data.pkl"]


def test_names_are_followed_through_the_memo():
    data = pickle.dumps([collections.OrderedDict(), collections.OrderedDict(), Evil()], protocol=4)
    assert [each.name for each in loaded_objects(data)] == ["OrderedDict", "system"]


def nested(depth, width, key=b""):
    """A dump in which a tuple holds the one before it so many times, so deep; the last one may be a key."""
    tuples = b"K\x01\x85\x94"
    for level in range(depth):
        tuples += b"(" + (b"h" + bytes([level])) * width + b"t\x94"
    pairs = b"".join(b"X\x01\x00\x00\x00" + bytes([97 + level]) + b"h" + bytes([level]) for level in range(depth))
    entries = b"X\x07\x00\x00\x00entries]X\x07\x00\x00\x00versionX\x01\x00\x00\x002"
    # The tuples lie below the dump on the stack, and only it is taken off.
    return b"\x80\x04" + tuples + b"}(" + entries + pairs + key + b"u."


def frames(entries, count):
    """Entries that all refer to one list of frames."""
    stack = [{"filename": "/torch/x.py"}] * count
    one = {"profiling_name": "nccl:all_reduce", "frames": stack}
    return {"version": "2.1", "entries": [{**one, "record_id": number} for number in range(entries)]}


def laugh(depth=30):
    """A list that holds another one ten times, and so on: a kilobyte that nobody can walk through."""
    bomb: list = []
    for _ in range(depth):
        bomb = [bomb] * 10
    return bomb


def own():
    """A list that holds itself."""
    ring: list = []
    ring.append(ring)
    return ring


BOMBS = {
    "lists in a field that nobody looks at": pickle.dumps(
        {"version": "2", "entries": [], "fr_laugh": laugh()}, protocol=2
    ),
    "lists in place of the entries": pickle.dumps({"version": "2", "entries": laugh()}, protocol=2),
    "tuples in a field": nested(9, 40),
    "tuples as a key": nested(9, 40, key=b"h\x09N"),
    "a tuple a million deep as a key": b"\x80\x02}(X\x07\x00\x00\x00entries]K\x01" + b"\x85" * 1_000_000 + b"Nu.",
    "tuples in a set": b"\x80\x04\x8f(X\x07\x00\x00\x00entries\x90" + nested(9, 40)[2:-1] + b"\x8f(h\x09\x90.",
    "one list of frames for all": pickle.dumps(frames(2000, 20_000), protocol=2),
    "a list in itself": pickle.dumps({"version": "2", "entries": [], "x": own()}, protocol=2),
}


@pytest.mark.parametrize("what", BOMBS)
def test_a_bomb_is_refused_before_anybody_walks_through_it(what):
    """Few bytes cannot ask for hours, nor for the end of the machine's stack."""
    with pytest.raises(LimitError, match="refused"):
        load_plain(BOMBS[what], "trace_rank_0")


def test_a_bomb_beside_logs_does_not_hide_their_verdict(tmp_path):
    (tmp_path / "trace_rank_0").write_bytes(BOMBS["lists in a field that nobody looks at"])
    report = triage([SG_BLOCK, tmp_path])
    assert len(report.problems) == 1
    assert report.verdict is not None


def test_ordinary_sharing_is_no_bomb():
    """PyTorch shares frames between operations, Python shares equal constants."""
    value = frames(2000, 60)
    value["entries"] = [{**each, "process_group": ("default_pg", ""), "sizes": ((1, 2),)} for each in value["entries"]]
    value["keys"] = {(1, 2): {(1, (2, 3))}, frozenset({1}): 1}
    assert load_plain(pickle.dumps(value, protocol=4), "x") == value


@pytest.mark.parametrize("data", [b"\x80\x04K\x01\x85\x94u.", b"\x80\x04K\x01\x85\x94h\x09.", b"\x80\x02\x85q\x00s."])
def test_instructions_that_do_not_fit_are_a_damaged_file(data):
    with pytest.raises(InputError, match="not a readable pickle"):
        load_plain(data, "x")


def test_the_reader_says_that_a_pickle_is_no_dump():
    data = pickle.dumps({"profiling_name": 1}, protocol=2)
    reader = detect_reader(data)
    assert reader is not None
    with pytest.raises(NotEvidenceError, match="no flight-recorder dump"):
        list(reader.read(io.BytesIO(data), "x"))
