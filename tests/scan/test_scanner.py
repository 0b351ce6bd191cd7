"""Scanning whole inputs: chunks, line numbers, colours, many files, many equal lines."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.scan import Source, children, open_sources, scan, scan_sources
from firstfault.scan import chunks as chunks_module
from firstfault.scan import scanner as scanner_module
from firstfault.scan.engine import load_engine
from firstfault.scan.patterns import build_patterns
from firstfault.scan.scanner import Scanner
from support.processes import is_running

FAULT = "torch.distributed.DistNetworkError: The client socket has timed out after 5000ms while trying to connect to (m, 1)."
FILLER = "2026-03-01 10:00:00,000 INFO a line like any other, number {}\n"


def faults(result):
    return [item for item in result.observations if item.cause == "network.c10d.unreachable"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("as_stream", [False, True])
def test_line_and_offset_across_chunks(tmp_path, monkeypatch, end, as_stream):
    """However the chunks are cut, a line has the number and the offset that an editor and `dd` would show."""
    monkeypatch.setattr(chunks_module, "CHUNK_BYTES", 4096)
    monkeypatch.setattr(chunks_module, "_SHORTEST_LOOK", 32)
    wanted = {1, 57, 58, 400, 999, 1000}
    lines = [
        FAULT.replace("(m", f"(m{number}") if number in wanted else FILLER.format(number).strip()
        for number in range(1, 1001)
    ]
    data = end.join(lines).encode() + end.encode()
    path = tmp_path / "a.log"
    path.write_bytes(data)
    if as_stream:  # noqa: SIM108 - two ways in, side by side
        result = scan_sources([Source("a.log", lambda: io.BytesIO(data))])
    else:
        result = scan([path])
    found = {item.line: item for item in faults(result)}
    assert set(found) == wanted
    for number, item in found.items():
        assert data[item.offset :].startswith(f"{FAULT[:20]}".encode())
        assert f"(m{number}," in item.text
    assert result.sources[0].lines == 1000
    assert result.sources[0].bytes == len(data)


def test_lines_longer_than_a_chunk(tmp_path, monkeypatch):
    """A line that spans several chunks is seen once, as one line."""
    monkeypatch.setattr(chunks_module, "CHUNK_BYTES", 1024)
    path = tmp_path / "a.log"
    path.write_text(f"first\n{'x' * 5000} {FAULT} {'y' * 5000}\nlast\n{FAULT}\n")
    found = faults(scan([path]))
    assert sorted({item.line for item in found}) == [2, 4]
    assert all("client socket has timed out" in item.text for item in found)


@pytest.mark.parametrize("as_stream", [False, True])
def test_a_line_that_is_cut_counts_as_one(tmp_path, monkeypatch, as_stream):
    """A line too long to be held in memory is read in pieces; the numbers of the lines behind it stay right."""
    monkeypatch.setattr(chunks_module, "CHUNK_BYTES", 1024)
    monkeypatch.setattr(chunks_module, "LONGEST_OVERHANG", 2048)
    data = f"first\n{'x' * 20_000} {FAULT}\nthird\n{FAULT}\nno end".encode()
    path = tmp_path / "a.log"
    path.write_bytes(data)
    result = scan_sources([Source("a.log", lambda: io.BytesIO(data))]) if as_stream else scan([path])
    assert sorted({item.line for item in faults(result)}) == [2, 4]
    assert (result.sources[0].lines, result.sources[0].bytes) == (5, len(data))


@pytest.mark.parametrize(("saturated", "ways"), [(500, [(1, 1), (4, 1)]), (20_000, [(4, 1), (4, 1 << 30)])])
def test_the_same_bytes_give_the_same_observations(tmp_path, monkeypatch, saturated, ways):
    """Neither the number of workers nor the way of looking decides what is seen, also in lines too long to be whole."""
    monkeypatch.setattr(chunks_module, "CHUNK_BYTES", 256 * 1024)
    monkeypatch.setattr(scanner_module, "SMALL_BYTES", 0)
    monkeypatch.setattr("firstfault.scan.lines.SATURATED", saturated)
    catalogue = load_catalogue()
    texts = [
        sample.text.splitlines()[0] for card in catalogue.cards.values() for sample in card.signatures[0].samples[:1]
    ]
    long = " ".join(texts)
    path = tmp_path / "a.log"
    path.write_text("".join(f"{long}\n" + f"{FAULT}\n" * 500 + "\n".join(texts) + "\n" for _ in range(3)))
    patterns = build_patterns(catalogue)
    seen = []
    for workers, common in ways:
        monkeypatch.setattr("firstfault.scan.engine.COMMON", common)
        engine = load_engine(patterns)
        seen.append(Scanner(patterns, engine, workers).scan(open_sources([path])).observations)
    assert seen[0]
    assert seen[1] == seen[0]


def test_colours_and_progress_bars(tmp_path):
    """Escape sequences inside a message and carriage returns before it do not hide it."""
    path = tmp_path / "a.log"
    coloured = FAULT.replace("timed out", "\x1b[1;31mtimed\x1b[0m out")
    path.write_bytes(f"one\n\r 10%|#  | 1/10\r 20%|## | 2/10\r{coloured}\nthree\n".encode())
    (item, *_) = faults(scan([path]))
    assert "\x1b" not in item.text
    assert item.line == 2


def test_equal_lines_are_kept_as_first_last_and_count(tmp_path):
    """A million equal lines are two observations; the count says how many they stand for."""
    path = tmp_path / "a.log"
    path.write_text(f"{FAULT}\n" * 5000)
    found = [item for item in faults(scan([path])) if item.signature.endswith("client-socket-timed-out")]
    assert [item.line for item in found] == [1, 5000]
    assert sum(item.repeats for item in found) == 5000


@pytest.mark.parametrize(
    ("ordinary", "telling", "signature"),
    [
        (
            "Cluster health:   9/9 reachable   (2024-05-01T10:00:00Z)",
            "Cluster health:   7/9 reachable   (2024-05-01T10:00:00Z)",
            "infra.cni.not-ready/agent-gave-up",
        ),
    ],
)
def test_a_veto_that_compares_numbers_is_asked_on_every_line(tmp_path, ordinary, telling, signature):
    """However many lines of one shape it held on before."""
    path = tmp_path / "a.log"
    path.write_text(f"{ordinary}\n" * 100 + f"{telling}\n")
    assert [item.line for item in scan([path]).observations if item.signature == signature] == [101]


def test_ranks_without_end_are_bounded(tmp_path, monkeypatch):
    """A log that names ever new ranks and values cannot fill the memory."""
    monkeypatch.setattr("firstfault.scan.lines.WRITERS", 50)
    path = tmp_path / "a.log"
    path.write_text("".join(f"[rank{n}]: {FAULT.replace('(m', f'(m{n}')}\n" for n in range(2000)))
    assert len(scan([path]).observations) < 1500


@pytest.mark.skipif(sys.platform != "linux", reason="work is shared among forked processes on Linux only")
class TestManyFiles:
    """Hundreds of small files are shared among processes; nobody notices but the clock."""

    @pytest.fixture
    def folder(self, tmp_path):
        for number in range(90):
            (tmp_path / f"rank-{number}.log").write_text(f"[rank{number}]: {FAULT if number % 7 == 0 else 'fine'}\n")
        return tmp_path

    def test_same_result(self, folder, monkeypatch):
        """One process or two: the same observations in the same order."""
        monkeypatch.setattr(scanner_module, "can_fork", lambda: False)
        alone = scan([folder])
        monkeypatch.setattr(scanner_module, "can_fork", lambda: True)
        monkeypatch.setattr(scanner_module.shared_scanner(), "_workers", 3)
        assert scan([folder]) == alone
        assert len(faults(alone)) >= 13

    def test_a_child_that_dies_loses_nothing(self):
        """The share of a child that fails is done again by the parent."""
        parent = os.getpid()

        def work(share):
            if os.getpid() != parent:
                os._exit(9)
            return ",".join(share).encode()

        assert children.map_shares(work, ["a", "b", "c", "d", "e"], 2) == [b"a,b,c", b"d,e"]


@pytest.mark.skipif(sys.platform != "linux", reason="work is shared among forked processes on Linux only")
class TestLargeFiles:
    """The chunks of a large file are examined by several processes in turn; nobody notices but the clock."""

    def test_same_result(self, tmp_path, monkeypatch):
        """One process, threads or three processes, saturated early or not at all: the same observations and numbers."""
        monkeypatch.setattr(chunks_module, "CHUNK_BYTES", 4096)
        monkeypatch.setattr(scanner_module, "SMALL_BYTES", 0)
        path = tmp_path / "a.log"
        path.write_text("".join(f"[rank{n % 9}]: {FAULT}\n{'fine ' * (n % 40)}\n" for n in range(6000)))
        patterns = build_patterns(load_catalogue())
        for saturated in (50, 1 << 30):
            monkeypatch.setattr("firstfault.scan.lines.SATURATED", saturated)
            seen = []
            for forked, workers in ((False, 1), (False, 3), (True, 3)):
                monkeypatch.setattr(scanner_module, "can_fork", lambda forked=forked: forked)
                seen.append(Scanner(patterns, load_engine(patterns), workers).scan(open_sources([path])))
            assert seen[0].sources[0].lines == 12_000
            assert seen[1] == seen[2] == seen[0]

    def test_a_child_that_dies_loses_nothing(self):
        """What a failing child would have done is done by the parent, in its place."""
        parent = os.getpid()

        def work(item, news):
            if os.getpid() != parent and item == 7:
                os._exit(9)
            assert news in {b"", b"ab", b"cd"}
            return str(item).encode()

        news = iter([b"ab"] * 3 + [b"cd"] * 20)
        found = list(children.map_in_turn(work, range(20), 3, lambda: next(news)))
        assert found == [str(item).encode() for item in range(20)]

    def test_a_killed_parent_leaves_no_child(self):
        """The kernel ends the children with it, wherever they are."""
        code = (
            "import os, time\nfrom firstfault.scan.children import map_in_turn\n"
            "def work(item, news):\n    os.write(1, b'%d\\n' % os.getpid())\n    time.sleep(100)\n"
            "list(map_in_turn(work, range(9), 3, lambda: b'x'))\n"
        )
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
            working = {int(parent.stdout.readline()) for _ in range(3)}
            parent.kill()
        deadline = time.monotonic() + 30
        while any(map(is_running, working)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not list(filter(is_running, working))

    def test_who_stops_reading_leaves_no_child(self, monkeypatch):
        """An error or Ctrl-C in the middle ends the children; also one that waits for its pipe to be read."""
        fork, made = os.fork, []
        monkeypatch.setattr(os, "fork", lambda: made.append(fork()) or made[-1])
        reading = children.map_in_turn(lambda item, _: bytes(3_000_000) + b"%d" % item, range(9), 3, lambda: b"x")
        assert next(reading).endswith(b"0")
        reading.close()
        assert len(made) == 2
        for process in made:
            with pytest.raises(ProcessLookupError):
                os.kill(process, 0)


def test_ranges_are_read_without_pread_too(monkeypatch, tmp_path):
    """Platforms without pread (Windows) read the same bytes."""
    file = tmp_path / "log"
    file.write_bytes(b"0123456789")
    monkeypatch.delattr(os, "pread", raising=False)
    with file.open("rb") as stream:
        assert chunks_module.read_at(stream.fileno(), 3, 5) == b"567"
        assert chunks_module.read_at(stream.fileno(), 30, 8) == b"89"


def test_a_file_that_becomes_shorter_is_reported(tmp_path, monkeypatch):
    """Rotated by truncation in the middle of reading: what is gone was not looked at, and that is said."""
    log = tmp_path / "train.log"
    log.write_bytes(b"step 1 loss 0.1\n" * 200_000)
    whole = scanner_module.file_chunks

    def truncating(file):
        chunks = whole(file)
        yield next(chunks)
        os.truncate(log, 100)
        yield from chunks

    monkeypatch.setattr(scanner_module, "file_chunks", truncating)
    (problem,) = scan([log]).problems
    assert "became shorter while it was read" in problem.error


@pytest.mark.parametrize("front", ["\ufeff", "\0\0\0", "\ufeff  "])
def test_marks_before_a_prefix_do_not_hide_the_rank(tmp_path, front):
    """A byte order mark of a Windows editor, zero bytes of a crash."""
    log = tmp_path / "x.log"
    log.write_bytes(f"{front}[rank3]: torch.OutOfMemoryError: CUDA out of memory.\n".encode())
    assert {item.rank for item in scan([log]).observations} == {3}
