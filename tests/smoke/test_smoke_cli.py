"""`firstfault smoke` on the command line: names and numbers that cannot be, IPv6, and being told to end."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from click.testing import CliRunner

from firstfault.cli.smoke import smoke
from firstfault.errors import UsageError
from firstfault.smoke import Limits, Options, run_smoke, run_wrapped
from firstfault.smoke.exchange import attempt, exchange
from support.ports import closed_port

RANK_1 = ("--rank", "1", "--world-size", "2")


def run(*words):
    return CliRunner().invoke(smoke, [*RANK_1, *words], standalone_mode=False)


@pytest.mark.parametrize("value", ["inf", "nan", "-1", "1e300", "x"])
@pytest.mark.parametrize("option", ["--wait", "--linger"])
def test_seconds_that_no_clock_counts_are_refused(option, value):
    done = CliRunner().invoke(smoke, [*RANK_1, "--master", "m:29500", option, value])
    assert done.exit_code == 2
    assert option in done.output


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "2Q"])
def test_bandwidth_that_is_none_is_refused(value):
    done = run("--master", "m:29500", "--min-bandwidth", value)
    assert isinstance(done.exception, UsageError)


@pytest.mark.parametrize("value", ["::1:29500", "[::1]", "[]:29500", "m", "m:x"])
def test_master_of_another_form_is_refused(value):
    done = run("--master", value)
    assert isinstance(done.exception, UsageError)
    assert "HOST:PORT" in done.exception.what


@pytest.mark.parametrize(
    ("name", "said"),
    [("train..svc", "labels is empty"), (".a", "labels is empty"), ("a." + "b" * 64, "64 characters"), ("ü" * 80, "")],
)
def test_name_that_no_resolver_takes_is_unresolved_and_names_the_label(tmp_path, name, said):
    limits = Limits(wait=0, name=10)
    report = run_smoke(Options(rank=1, world_size=2, master=(name, 29500), limits=limits), tmp_path)
    assert report.verdict.cause == "network.dns.unresolved"
    assert said in next(rung.why for rung in report.rungs if rung.rung == "name")
    assert said in report.verdict.evidence[0].text
    assert "gaierror" not in report.verdict.evidence[0].text


def test_evidence_repeats_what_the_resolver_said(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    limits = Limits(wait=0, name=10)
    report = run_smoke(Options(rank=1, world_size=2, master=("m", 29500), limits=limits), tmp_path)
    assert report.verdict.cause == "network.dns.unresolved"
    assert "[Errno -3] Temporary failure" in report.verdict.evidence[0].text


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_PORT", "LOCAL_RANK"])
def test_variable_that_is_no_number_is_named(monkeypatch, name):
    """Of four, the one that is wrong, with what it says."""
    for each, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "m", "MASTER_PORT": "1", name: "x"}.items():
        monkeypatch.setenv(each, value)
    done = CliRunner().invoke(smoke, [], standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert done.exception.what == f"{name}=x: not a whole number"


def test_master_that_ends_before_all_have_come_is_not_called_missing_ranks(tmp_path):
    """It was told to end, say, while others had met it already: they cannot tell who came."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet_and_go():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)

        thread = threading.Thread(target=greet_and_go)
        thread.start()
        options = Options(rank=1, world_size=3, master=server.getsockname(), limits=Limits(wait=20, tcp=5))
        report = run_smoke(options, tmp_path)
        thread.join()
    assert report.verdict.cause == "network.c10d.store-lost"
    assert "ended before all had come" in report.verdict.summary
    assert "missing" not in report.verdict.summary


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="the loopback interface has no IPv6 address")
NAMES = {"v4-only": ["127.0.0.1"], "v6-only": ["::1"], "both": ["127.0.0.1", "::1"]}


@pytest.fixture
def names(monkeypatch):
    """Names of this host by one family or by both; the resolver knows no others."""
    resolve = socket.getaddrinfo

    def known(host, *args, **kwargs):
        return [each for address in NAMES.get(host, [host]) for each in resolve(address, *args, **kwargs)]

    monkeypatch.setattr(socket, "getaddrinfo", known)


@needs_ipv6
@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    "masters", [("::1", "::1"), ("127.0.0.1", "v6-only"), ("v6-only", "v4-only"), ("both", "both")]
)
def test_ranks_meet_by_either_family(masters):
    """Each rank may know the master by another address than rank 0 itself, as with split name servers."""
    port = closed_port()
    found = {}

    def meet(rank):
        limits = Limits(wait=20, tcp=5)
        options = Options(rank=rank, world_size=2, master=(masters[rank], port), limits=limits)
        found[rank] = exchange(options, f"node-{rank}")

    threads = [threading.Thread(target=meet, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in found.values():
        for connection in each.held.values():
            connection.close()
    assert found[0].joined == found[1].joined == [0, 1]
    assert [each.state for rank in (0, 1) for each in found[rank].to_peers] == ["open", "open"]


@needs_ipv6
@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("server", ["127.0.0.1", "::1"])
def test_name_of_both_families_is_open_where_one_is(server):
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.create_server((server, 0), family=family) as listening:
        made, connection = attempt(("both", listening.getsockname()[1]), "both", 5)
        assert connection is not None
        connection.close()
    assert made.state == "open"


@pytest.mark.parametrize(
    ("errors", "state"),
    [
        ([ConnectionRefusedError(), OSError(errno.ENETUNREACH, "x")], "refused"),
        ([OSError(errno.ENETUNREACH, "x"), ConnectionRefusedError()], "refused"),
        ([TimeoutError(), OSError(errno.EHOSTUNREACH, "x")], "dropped"),
        ([TimeoutError(), ConnectionRefusedError()], "refused"),
        ([OSError(errno.ENETUNREACH, "x")] * 2, "unreachable"),
    ],
)
def test_of_several_addresses_the_one_that_answers_counts(monkeypatch, errors, state):
    """A family without a route says nothing about the host; what is refused may only not have started."""
    failures = ExceptionGroup("create_connection failed", errors)

    def fail(*_args, **_kwargs):
        raise failures

    monkeypatch.setattr(socket, "create_connection", fail)
    made, connection = attempt(("m", 1), "m", 1)
    assert (made.state, connection) == (state, None)


SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """An empty folder for temporary files, in which nothing may stay."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@SIGNALS
def test_whoever_is_told_to_end_leaves_nothing_behind(scratch, number):
    """While it waits for its peers: its folder and the lock beside it go, it says so, and ends as shells call it."""
    words = ["--rank", "0", "--world-size", "2", "--master", f"127.0.0.1:{closed_port()}", "--wait", "60"]
    with subprocess.Popen(
        [sys.executable, "-m", "firstfault", "smoke", "--backend", "gloo", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 60
        while not any(path.is_dir() for path in scratch.iterdir()):
            assert time.monotonic() < deadline, "it never began"
            time.sleep(0.02)
        process.send_signal(number)
        shown, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert list(scratch.iterdir()) == []
    assert (shown, said.decode()) == (b"", f"firstfault: ended by {number.name}; its temporary files were deleted\n")


# The preflight of one rank alone, without PyTorch.
WRAPPING = """
from firstfault.cli import main
from firstfault.smoke import run
run._backend = lambda _: (None, None)
main()
"""
PROGRAM = """
import signal, sys, time
def checkpoint(*_):
    print("checkpoint")
    sys.exit(7)
signal.signal(int(sys.argv[1]), checkpoint)
print("step 1", flush=True)
while True:
    time.sleep(0.05)
"""


@SIGNALS
def test_wrapped_program_gets_the_signal_and_ends_as_it_likes(scratch, number):
    """It may write its checkpoint; smoke waits for it, gives its exit code and leaves nothing behind."""
    words = ["--rank", "0", "--world-size", "1", "--master", "127.0.0.1:29500", "--backend", "gloo", "--wrap", "--"]
    program = [sys.executable, "-c", PROGRAM, str(int(number))]
    with subprocess.Popen(
        [sys.executable, "-c", WRAPPING, "smoke", *words, *program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"step 1\n"
        process.send_signal(number)
        shown, said = process.communicate(timeout=60)
    assert (process.returncode, shown) == (7, b"checkpoint\n"), said.decode()
    assert list(scratch.iterdir()) == []


def test_signal_before_the_wrapped_program_has_started_is_kept_for_it(monkeypatch, tmp_path):
    """No moment is left in which a signal would end smoke and let the program run on."""
    start = subprocess.Popen

    def interrupted(*args, **kwargs):
        os.kill(os.getpid(), signal.SIGTERM)
        return start(*args, **kwargs)

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    code, _ = run_wrapped(["sleep", "60"], tmp_path / "program.log")
    assert code == 128 + signal.SIGTERM
