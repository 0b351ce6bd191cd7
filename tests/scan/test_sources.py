"""Finding what there is to read: files, folders, archives, pipes; and refusing what would hurt."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard

from firstfault.errors import InputError, LimitError
from firstfault.scan.limits import Limits
from firstfault.scan.sources import Source, SourceProblem, open_sources

LOG = b"first line\nhost:1:2 [0] NCCL INFO hello\n"
MAKERS = {
    "gzip": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


def tar_bytes(files: dict[str, bytes], mode: str = "w") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def zip_bytes(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def read_all(*paths, **options) -> tuple[dict[str, bytes], list[SourceProblem]]:
    """Read every source to its end; an error in the middle keeps what came before and counts as a problem."""
    content: dict[str, bytes] = {}
    problems: list[SourceProblem] = []
    for item in open_sources(paths, **options):
        if isinstance(item, SourceProblem):
            problems.append(item)
            continue
        item.head()
        parts = content.setdefault(item.name, b"")
        with item.open() as stream:
            try:
                while data := stream.read(1000):
                    parts += data
            except InputError as error:
                problems.append(SourceProblem(name=item.name, error=error))
            content[item.name] = parts
    return content, problems


def test_a_plain_file_has_a_path_and_a_size(tmp_path):
    """A plain local file can be mapped into memory: path and size are known, and it can be opened twice."""
    file = tmp_path / "a.log"
    file.write_bytes(LOG)
    (source,) = open_sources([file])
    assert isinstance(source, Source)
    assert (source.name, source.size, source.path) == (str(file), len(LOG), file)
    for _ in range(2):
        with source.open() as stream:
            assert stream.read() == LOG


@pytest.mark.parametrize("method", MAKERS)
def test_compressed_files_are_told_from_content(tmp_path, method):
    """The name says nothing: a compressed file called .log is expanded, several members in a row too."""
    file = tmp_path / "a.log"
    file.write_bytes(MAKERS[method](LOG) + MAKERS[method](LOG))
    content, problems = read_all(file)
    assert (content, problems) == ({str(file): LOG * 2}, [])


@pytest.mark.parametrize("method", MAKERS)
def test_a_cut_file_gives_what_it_has_and_then_an_error(tmp_path, method):
    """The end of a cut log is where the fault stands: nothing that can be read is lost."""
    lines = b"".join(b"step %d loss %d\n" % (n, n * n) for n in range(40_000))
    file = tmp_path / "a.gz"
    packed = MAKERS[method](lines)
    file.write_bytes(packed[: len(packed) // 2])
    content, problems = read_all(file)
    found = content.get(str(file), b"")
    if method != "bz2":  # a bzip2 block is all or nothing
        assert len(found) > 1000
    assert lines.startswith(found[:-1] if found.endswith(b"\n") else found)
    assert "damaged or cut" in str(problems[0].error)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_members_of_tar_archives_are_named_with_their_archive(tmp_path, mode):
    """A member is `outer!inner`; folders within the archive are part of the inner name."""
    file = tmp_path / "bundle.tgz"
    file.write_bytes(tar_bytes({"b/0.log": LOG, "b/1.log": b"x\n"}, mode))
    content, problems = read_all(file)
    assert (content, problems) == ({f"{file}!b/0.log": LOG, f"{file}!b/1.log": b"x\n"}, [])


def test_archives_within_archives(tmp_path):
    """A zip in a tar in a zip is opened to the log."""
    inner = zip_bytes({"deep.log.gz": gzip.compress(LOG)})
    file = tmp_path / "outer.zip"
    file.write_bytes(zip_bytes({"mid.tar.gz": tar_bytes({"inner.zip": inner}, "w:gz")}))
    content, problems = read_all(file)
    assert (content, problems) == ({f"{file}!mid.tar.gz!inner.zip!deep.log.gz": LOG}, [])


def test_archives_nested_too_deep_are_refused(tmp_path):
    """Nesting has a limit, and the message says what to do."""
    data = LOG
    for _ in range(8):
        data = zip_bytes({"next.zip": data})
    file = tmp_path / "deep.zip"
    file.write_bytes(data)
    content, (problem,) = read_all(file)
    assert content == {}
    assert isinstance(problem.error, LimitError)
    assert "nested more than 5 deep" in str(problem.error)


@pytest.mark.parametrize("method", [*MAKERS, "zip"])
def test_a_bomb_is_refused(tmp_path, method):
    """What expands thousandfold is an archive bomb; reading stops soon after the limit."""
    zeros = bytes(8_000_000)
    file = tmp_path / "bomb"
    file.write_bytes(zip_bytes({"zeros.log": zeros}) if method == "zip" else MAKERS[method](zeros))
    content, (problem,) = read_all(file, limits=Limits(ratio_grace_bytes=1_000_000))
    assert isinstance(problem.error, LimitError)
    assert "archive bomb" in str(problem.error)
    assert sum(map(len, content.values())) < 4_000_000


def test_an_endless_stream_ends_at_the_limit():
    """Standard input is cut at the limit on expanded bytes."""

    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    limits = Limits(max_expanded_bytes=1_000_000)
    content, (problem,) = read_all("-", stdin=io.BufferedReader(Endless()), limits=limits)
    assert isinstance(problem.error, LimitError)
    assert 500_000 < len(content["stdin"]) < 1_100_000


@pytest.mark.parametrize("pack", [tar_bytes, zip_bytes])
def test_a_member_that_leads_out_of_its_archive_is_an_error(tmp_path, pack):
    """Path traversal is named as such and the other members are still read; nothing is written anywhere."""
    file = tmp_path / "evil"
    file.write_bytes(pack({"../../../etc/cron.d/x": b"* * * * * root evil\n", "good.log": LOG}))
    content, (problem,) = read_all(file)
    assert content == {f"{file}!good.log": LOG}
    assert "path traversal" in str(problem.error)
    assert sorted(tmp_path.iterdir()) == [file]


def test_links_and_devices_in_a_tar_are_left_out(tmp_path):
    """Only regular members are read."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, kind in (
            ("l", tarfile.SYMTYPE),
            ("h", tarfile.LNKTYPE),
            ("d", tarfile.CHRTYPE),
            ("f", tarfile.FIFOTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type = kind
            info.linkname = "/etc/passwd"
            tar.addfile(info)
    file = tmp_path / "links.tar"
    file.write_bytes(buffer.getvalue())
    content, problems = read_all(file)
    assert content == {}
    assert [(p.name[-1], p.level) for p in problems] == [(name, "skipped") for name in "lhdf"]


def test_folders_are_sorted_and_links_out_of_them_are_not_followed(tmp_path):
    """A link out of the tree is skipped and said so; one within the tree is silent, its target is read anyway."""
    outside = tmp_path / "outside.log"
    outside.write_bytes(b"secret\n")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "b.log").write_bytes(b"b\n")
    (root / "sub" / "a.log").write_bytes(b"a\n")
    (root / "in").symlink_to(root / "b.log")
    (root / "loop").symlink_to(root)
    (root / "out").symlink_to(outside)
    content, (problem,) = read_all(root)
    assert list(content.items()) == [(str(root / "b.log"), b"b\n"), (str(root / "sub/a.log"), b"a\n")]
    assert (problem.name, problem.level) == (str(root / "out"), "skipped")


def test_special_files_never_block(tmp_path):
    """A named pipe without a writer, a device, a folder that is missing: errors, at once, and the rest goes on."""
    os.mkfifo(tmp_path / "pipe")
    good = tmp_path / "z.log"
    good.write_bytes(LOG)
    content, problems = read_all(tmp_path / "pipe", "/dev/zero", tmp_path / "missing", good)
    assert content == {str(good): LOG}
    assert ["a named pipe" in str(problems[0].error), "a device" in str(problems[1].error)] == [True, True]
    assert "No such file" in str(problems[2].error)
    content, (skipped,) = read_all(tmp_path)
    assert content == {str(good): LOG}
    assert skipped.level == "skipped"


def test_a_pipe_of_the_shell_is_read():
    """`firstfault triage <(kubectl logs …)` hands over /dev/fd/N."""
    reading, writing = os.pipe()
    os.write(writing, LOG)
    os.close(writing)
    name = f"/dev/fd/{reading}"
    content, problems = read_all(name)
    os.close(reading)
    assert (content, problems) == ({name: LOG}, [])


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_utf16_becomes_utf8(tmp_path, codec):
    """PowerShell writes UTF-16, with a mark or without."""
    file = tmp_path / "ps.log"
    text = "Init COMPLETE – café\r\n" * 10
    file.write_bytes(text.encode(codec))
    content, problems = read_all(file)
    assert problems == []
    assert content[str(file)].decode("utf-8-sig") == text


def test_nul_bytes_are_no_reason_to_refuse(tmp_path):
    """A log with holes is a log."""
    file = tmp_path / "holes.log"
    data = b"one\n" + bytes(5000) + b"two\n"
    file.write_bytes(data)
    assert read_all(file) == ({str(file): data}, [])


def test_a_stream_can_be_opened_once(tmp_path):
    """A member of an archive is a stream: the second open says so instead of returning nothing."""
    file = tmp_path / "a.tar"
    file.write_bytes(tar_bytes({"a.log": LOG}))
    for source in open_sources([file]):
        assert source.head() == LOG
        assert source.head() == LOG
        with source.open() as stream:
            assert stream.read() == LOG
        with pytest.raises(InputError, match="only once"):
            source.open()


def test_too_many_files_stop_the_walk(tmp_path):
    """The count of sources is limited, in folders and archives alike."""
    for n in range(5):
        (tmp_path / f"{n}.log").write_bytes(LOG)
    content, (problem,) = read_all(tmp_path, limits=Limits(max_sources=3))
    assert len(content) == 3
    assert "more than 3 files" in str(problem.error)


def test_a_huge_tar_header_is_not_read_into_memory(tmp_path):
    """An extended header that claims gigabytes is refused before it is read."""
    info = tarfile.TarInfo("pax")
    info.type = tarfile.XHDTYPE
    info.size = 4 << 30
    file = tmp_path / "pax.tar"
    file.write_bytes(info.tobuf(tarfile.USTAR_FORMAT) + bytes(10_240))
    content, (problem,) = read_all(file)
    assert content == {}
    assert isinstance(problem.error, LimitError)


def test_an_encrypted_member_is_named(tmp_path):
    """A zip with a password: the member is an error, the others are read."""
    data = bytearray(zip_bytes({"a.log": LOG}))
    local, central = data.index(b"PK\x03\x04"), data.index(b"PK\x01\x02")
    data[local + 6] |= 1
    data[central + 8] |= 1
    file = tmp_path / "locked.zip"
    file.write_bytes(bytes(data))
    content, (problem,) = read_all(file)
    assert content == {}
    assert "encrypted" in str(problem.error)


def test_standard_input_may_be_an_archive(tmp_path):
    """`cat bundle.tar.gz | firstfault triage -`."""
    content, problems = read_all("-", stdin=io.BytesIO(tar_bytes({"x/rank0.log": LOG}, "w:gz")))
    assert (content, problems) == ({"stdin!x/rank0.log": LOG}, [])


def test_unreadable_paths_are_problems_not_tracebacks():
    """A name with a zero byte, an over-long name and a missing standard input are InputErrors."""
    content, problems = read_all("a\0b", "x" * 5000, "-")
    assert content == {}
    assert all(isinstance(problem.error, InputError) for problem in problems)
    assert len(problems) == 3


def test_paths_may_be_relative(tmp_path, monkeypatch):
    """Names come out as they were given."""
    (tmp_path / "a.log").write_bytes(LOG)
    monkeypatch.chdir(tmp_path)
    content, _ = read_all(Path("a.log"))
    assert content == {"a.log": LOG}


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that fails when it is read")
def test_file_that_fails_when_read_is_its_own_problem(tmp_path):
    """A bad sector or a stale NFS handle: named, and the other files are read all the same."""
    good = tmp_path / "good.log"
    good.write_text("RuntimeError: x\n")
    found = list(open_sources(["/proc/self/mem", str(good)]))
    assert [type(each).__name__ for each in found] == ["SourceProblem", "Source"]
    assert "/proc/self/mem: Input/output error" in str(found[0].error)


def test_a_tar_header_that_claims_an_exabyte_ends_at_once(tmp_path):
    """A size of 2**60 bytes in a header of a tiny tar is a damaged archive, not a walk to the end of time."""
    info = tarfile.TarInfo("big.log")
    info.size = 2**60
    header = info.tobuf(tarfile.GNU_FORMAT)
    file = tmp_path / "lie.tar"
    file.write_bytes(tar_bytes({"before.log": LOG})[:1024] + header + b"\0" * 512)
    content, problems = read_all(file)
    assert content[f"{file}!before.log"] == LOG
    assert any("more bytes than the archive has" in str(problem.error) for problem in problems)


def test_a_folder_that_may_not_be_entered_is_its_own_problem(tmp_path, monkeypatch):
    """The look for a git repository in a closed folder fails: the folder is named, its neighbours are read."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "a.log").write_bytes(LOG)
    is_file, scandir = Path.is_file, os.scandir

    def refuse(path):
        if "closed" in os.fspath(path):
            raise PermissionError(13, "Permission denied", os.fspath(path))

    monkeypatch.setattr(Path, "is_file", lambda path: (refuse(path), is_file(path))[1])
    monkeypatch.setattr("firstfault.scan.sources.os.scandir", lambda path: (refuse(path), scandir(path))[1])
    content, problems = read_all(tmp_path)
    assert list(content.values()) == [LOG]
    assert [(Path(problem.name).name, problem.level) for problem in problems] == [("closed", "error")]
