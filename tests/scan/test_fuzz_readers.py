"""Short fuzzing of every reader and archive format; `tools/fuzz-readers` does it for minutes."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.scan import readers
from firstfault.scan.readers import detect_reader
from scan.fuzzing import mutate, mutate_document, read_everything
from scan.seeds import SEEDS

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=25)


@pytest.mark.parametrize("name", SEEDS)
def test_seeds_are_read(name):
    """Every seed is well-formed: its reader finds something in it, or it holds plain logs."""
    lines = read_everything(SEEDS[name])
    plain = {"gzip", "bz2", "xz", "zstd", "tar", "tar.gz", "zip", "utf-16"}
    assert bool(lines) == (name not in plain)


def test_every_reader_has_a_seed():
    """What is not broken here and by `tools/fuzz-readers` would break for a user first."""
    read = {detect_reader(data) for data in SEEDS.values()}
    every = {readers._reader(module, name) for module, name, _ in readers._CANDIDATES}
    assert sorted(type(each).__name__ for each in every - read) == []


@pytest.mark.parametrize("name", SEEDS)
@CALM
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_broken_sources_give_lines_or_a_clear_error(name, seed):
    """No broken source raises anything but InputError, and every line is one line of text."""
    read_everything(mutate(SEEDS[name], random.Random(seed), SEEDS.values()))


DOCUMENTS = [name for name, data in SEEDS.items() if mutate_document(data, random.Random(0))]


@pytest.mark.parametrize("name", DOCUMENTS)
@CALM
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_documents_of_the_wrong_types(name, seed):
    """A document that is well-formed, but has a list where a name should be, and the like."""
    read_everything(mutate_document(SEEDS[name], random.Random(seed)))


@CALM
@given(st.binary(max_size=2000))
def test_any_bytes_give_lines_or_a_clear_error(data):
    """Bytes that were never anything."""
    read_everything(data)


@CALM
@given(
    st.text(max_size=500),
    st.sampled_from(["{}", '{{"message": {}}}', '{{"apiVersion": "v1", "kind": {}}}', "kind: Pod\nx: {}"]),
)
def test_any_text_in_a_document(text, frame):
    """Text of any script within documents, escaped or not."""
    read_everything(frame.format(text).encode("utf-8", "surrogatepass"))
