"""The cache is for speed alone: nothing about it can change an answer or be used against its owner."""

from __future__ import annotations

import os
import stat

import pytest

from firstfault.catalogue import content_key, load_bytes, load_catalogue, store_bytes
from firstfault.scan.engine import HyperscanEngine
from firstfault.scan.patterns import build_patterns


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "firstfault"


def test_what_was_stored_comes_back(folder):
    """Stored bytes come back under their key, from a folder that is the owner's alone."""
    store_bytes("thing", "k1", b"payload")
    assert load_bytes("thing", "k1") == b"payload"
    assert load_bytes("thing", "k2") is None
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_only_the_newest_few_stay(folder):
    """Versions used side by side do not drive each other out, and the folder does not grow."""
    store_bytes("other", "k0", b"else")
    for number in range(7):
        store_bytes("thing", f"k{number}", b"value")
        os.utime(folder / f"thing-k{number}.bin", (number, number))
    assert load_bytes("thing", "k6") == load_bytes("thing", "k4") == b"value"
    assert sorted(path.name for path in folder.iterdir()) == ["other-k0.bin", *(f"thing-k{n}.bin" for n in range(3, 7))]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:-1] + b"?", lambda _: b"", lambda _: b"x" * 99]
)
def test_a_damaged_file_is_not_believed(folder, damage):
    """Cut, changed or empty: it counts as not there."""
    store_bytes("thing", "k1", b"payload")
    path = folder / "thing-k1.bin"
    path.write_bytes(damage(path.read_bytes()))
    assert load_bytes("thing", "k1") is None


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_folder_that_others_can_write_is_not_trusted(folder):
    """The compiled database goes to native code: a stranger's file must not."""
    store_bytes("thing", "k1", b"payload")
    folder.chmod(0o777)
    assert load_bytes("thing", "k1") is None
    store_bytes("thing", "k2", b"more")
    assert not (folder / "thing-k2.bin").exists()


def test_a_link_in_its_place_is_not_followed(folder, tmp_path):
    """A link where the folder should be is somebody else's idea."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    store_bytes("thing", "k1", b"payload")
    assert load_bytes("thing", "k1") is None


def test_without_a_cache_everything_works(tmp_path, monkeypatch):
    """A cache folder that cannot be made costs time, nothing else."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    load_catalogue.cache_clear()
    try:
        assert len(load_catalogue().cards) > 100
    finally:
        load_catalogue.cache_clear()


def test_an_engine_is_rebuilt_when_its_cache_is_damaged(folder):
    """The same candidates from a fresh, a cached and a damaged cache."""
    pytest.importorskip("hyperscan")
    patterns = build_patterns(load_catalogue())[:60]
    chunk = b"NVRM: Xid (PCI:0000:19:00): 48, pid=1234\nuncorrectable ECC error encountered\n" * 3
    fresh = HyperscanEngine(patterns).find(chunk)
    cached = HyperscanEngine(patterns).find(chunk)
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-5])
    assert fresh == cached == HyperscanEngine(patterns).find(chunk)


def test_parts_of_a_key_do_not_run_together():
    """Moving a byte from one part to the next changes the key."""
    assert content_key(b"ab", b"c") != content_key(b"a", b"bc")
