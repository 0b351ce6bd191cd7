"""The local world on this machine's kernel: namespaces, jobs, firewall, and that nothing outlives it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from firstfault.act.world import Footprint, leftovers
from firstfault.drills.local import left_of
from firstfault.model.securitygroups import GroupRule, SecurityGroup

pytestmark = pytest.mark.netns

ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
OPEN = GroupRule(id="egress-all", direction="egress", protocol="all", peer="0.0.0.0/0")


def run(world, node, script):
    """Run a shell script in a node; return its exit code and output."""
    read, write = os.pipe()
    try:
        job = world.spawn(node, ["/bin/sh", "-c", script], env=ENV, cwd=Path("/"), output=write)
    finally:
        os.close(write)
    with os.fdopen(read) as stream:
        output = stream.read()
    ended = world.wait_exit(20)
    assert ended.job == job
    return ended.code, output


def connect(world, node, address, patience=20.0):
    """Try one TCP connection from a node; return what came of it. Who expects silence need not be patient."""
    with world.socket(node, "tcp") as sock:
        sock.settimeout(patience)
        try:
            sock.connect(address)
        except TimeoutError:
            return "dropped"
        except ConnectionRefusedError:
            return "refused"
    return "open"


def test_each_node_has_its_own_name_and_hosts(world):
    """A job sees the node's host name and resolves the other node, whatever the machine is called."""
    code, output = run(world, "beta", "hostname; getent hosts alpha")
    assert code == 0
    assert output.splitlines()[0] == "beta-0"
    assert output.splitlines()[1].split()[0] == "192.168.7.1"


def test_job_has_no_capability_and_cannot_touch_the_firewall(world):
    """Neither as root nor as the owner of the user namespace may a drilled program change its node."""
    world.set_firewall("alpha", [SecurityGroup(name="node", rules=[OPEN])], {})
    before = world.firewall("alpha")
    code, output = run(
        world, "alpha", "grep -E 'Cap(Eff|Prm|Bnd)' /proc/self/status; echo 1 >/proc/sys/net/ipv4/ip_forward"
    )
    assert code != 0
    assert {line.split()[1] for line in output.splitlines() if line.startswith("Cap")} == {"0" * 16}
    assert world.firewall("alpha").digest == before.digest


def test_firewall_drops_what_no_rule_allows_and_counts_it(world):
    """Default deny, stateful, with the counts that the kernel reports."""
    rule = GroupRule(id="high", direction="ingress", ports=(2000, 3000), peer="self")
    world.set_firewall("alpha", [SecurityGroup(name="node", rules=[rule])], {"node": ["192.168.7.2"]})
    with world.socket("alpha", "tcp", ("0.0.0.0", 2500)), world.socket("alpha", "tcp", ("0.0.0.0", 80)):
        assert connect(world, "beta", ("192.168.7.1", 2500)) == "open"
        assert connect(world, "beta", ("192.168.7.1", 80), patience=0.5) == "dropped"
        assert connect(world, "alpha", ("192.168.7.1", 80)) == "open", "a node reaches itself"
    state = world.firewall("alpha")
    assert state.counts(["node", "aux"]) == {"node": {"ingress": 1, "egress": 0}, "aux": {"ingress": 0, "egress": 0}}
    assert [(rule.rule, rule.packets) for rule in state.rules] == [("high", 1)]
    assert state.refused["ingress"] >= 1


def test_rejecting_firewall_answers(world):
    """On request, what no rule allows is refused with a reset."""
    world.set_firewall("alpha", [SecurityGroup(name="node", rules=[])], {}, reject=True)
    with world.socket("alpha", "tcp", ("0.0.0.0", 80)):
        assert connect(world, "beta", ("192.168.7.1", 80)) == "refused"


def test_union_of_groups_decides(world):
    """A rule of either group is enough; replacing the groups takes effect at once, and is the same again afterwards."""
    node = SecurityGroup(name="node", rules=[OPEN])
    aux = SecurityGroup(
        name="aux", rules=[GroupRule(id="vpc", direction="ingress", protocol="all", peer="192.168.0.0/16")]
    )
    empty = SecurityGroup(name="aux", rules=[])
    with world.socket("alpha", "tcp", ("0.0.0.0", 29500)):
        world.set_firewall("alpha", [node, aux], {})
        before = world.firewall("alpha")
        assert connect(world, "beta", ("192.168.7.1", 29500)) == "open"
        world.set_firewall("alpha", [node, empty], {})
        assert world.firewall("alpha").digest != before.digest
        assert connect(world, "beta", ("192.168.7.1", 29500), patience=0.5) == "dropped"
        world.set_firewall("alpha", [node, aux], {})
        assert world.firewall("alpha").digest == before.digest
        assert connect(world, "beta", ("192.168.7.1", 29500)) == "open"


@pytest.mark.skipif(shutil.which("nft") is None or os.geteuid() != 0, reason="needs root and the nft program")
def test_nft_program_reads_the_rules_as_meant(world):
    """An independent reader of the kernel's rules agrees with what was asked for."""
    rules = [
        GroupRule(id="dns", direction="ingress", protocol="udp", ports=(53, 53), peer="192.168.0.0/20"),
        GroupRule(id="self", direction="ingress", ports=(1025, 65535), peer="self"),
    ]
    world.set_firewall("alpha", [SecurityGroup(name="node", rules=[*rules, OPEN])], {"node": ["192.168.7.2"]})
    job = world.spawn("alpha", ["/bin/sleep", "60"], env=ENV, cwd=Path("/"), output=2)
    outer = next(
        path.name
        for path in Path("/proc").glob("[0-9]*")
        if f"NSpid:\t{path.name}\t{job}\n" in _read(path / "status")
        and b"/bin/sleep" in (path / "cmdline").read_bytes()
    )
    listing = subprocess.run(
        ["nsenter", f"--net=/proc/{outer}/ns/net", "nft", "list", "ruleset"], capture_output=True, text=True, check=True
    ).stdout
    world.signal(job, signal.SIGKILL)
    assert "policy drop" in listing
    assert "ip saddr 192.168.0.0/20 meta l4proto udp th dport 53" in listing or (
        "ip saddr 192.168.0.0/20 udp dport 53" in listing
    )
    assert "ip saddr @node tcp dport 1025-65535" in listing
    assert "elements = { 192.168.7.2 }" in listing
    assert "ct state established,related accept" in listing


def _read(path):
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def test_closing_ends_every_process(world):
    """Jobs that fled into sessions of their own end with the world, and nothing of it is left."""
    world.spawn("alpha", ["/bin/sh", "-c", "setsid sleep 300 & sleep 300"], env=ENV, cwd=Path("/"), output=2)
    footprint = world.footprint
    assert list(leftovers(footprint))
    world.close()
    assert list(leftovers(footprint)) == []


def test_mounts_stay_inside(world):
    """The machine's own mount table does not change while a world is there."""
    assert str(world._scratch) not in Path("/proc/self/mountinfo").read_text()
    assert "192.168.7.1" not in Path("/etc/hosts").read_text()


def test_program_that_cannot_start_says_why(world, tmp_path):
    """The error of the exec comes back to the caller."""
    with pytest.raises(FileNotFoundError, match="No such file"):
        world.spawn("alpha", [str(tmp_path / "nothing")], env=ENV, cwd=Path("/"), output=2)


def test_sweep_ends_jobs_and_reports_them(world):
    """Everything but the world itself ends; the job's exit shows the signal."""
    world.spawn("alpha", ["/bin/sleep", "300"], env=ENV, cwd=Path("/"), output=2)
    world.sweep()
    assert world.wait_exit(20).code == -signal.SIGKILL


def test_setting_belongs_to_one_node(world):
    """A kernel setting of a node changes there and nowhere else."""
    other = world.setting("beta", "net.ipv4.tcp_syn_retries", "6")
    world.setting("alpha", "net.ipv4.tcp_syn_retries", "2")
    assert world.setting("beta", "net.ipv4.tcp_syn_retries", other) == "6"
    assert world.setting("alpha", "net.ipv4.tcp_syn_retries", "6") == "2"


def test_pulled_cable_cuts_a_node(world):
    """Without its cable a node is not reached, and it is again with it."""
    with world.socket("alpha", "tcp", ("0.0.0.0", 80)):
        world.set_link("alpha", up=False)
        assert connect(world, "beta", ("192.168.7.1", 80), patience=0.5) == "dropped"
        world.set_link("alpha", up=True)
        assert connect(world, "beta", ("192.168.7.1", 80)) == "open"


KILLED = """
import msgspec, os, signal, sys
from pathlib import Path
from firstfault.act.world import LocalWorld, NodeSpec
world = LocalWorld([NodeSpec(name="a", hostname="a", address="10.9.0.1/16")], scratch=Path(sys.argv[1]))
world.start()
world.spawn("a", ["/bin/sh", "-c", "trap '' HUP TERM INT; setsid sleep 300 & sleep 300"], env={}, cwd=Path("/"), output=2)
footprint = world.footprint
print(*msgspec.structs.astuple(footprint), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.usefixtures("world")
def test_nothing_survives_the_death_of_the_tool(tmp_path):
    """SIGKILL of the tool ends the world, jobs that ignore signals included."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "other")], env=env, capture_output=True, text=True, check=False
    )
    assert script.returncode == -signal.SIGKILL, script.stderr
    names = ("stub", "stub_started", "init", "init_started")
    footprint = Footprint(**dict(zip(names, map(int, script.stdout.split()), strict=True)))
    assert footprint.init_started > 0
    assert left_of(footprint) == []


PROGRAMS = {
    "ends well": "import sys; print('out'); print('err', file=sys.stderr)",
    "raises": "def f():\n    raise ValueError('why')\nf()",
    "exits with a number": "import sys; sys.exit(3)",
    "exits with words": "import sys; sys.exit('enough')",
    "has exit handlers and threads": (
        "import atexit, threading, time; atexit.register(print, 'bye')\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))).start()"
    ),
    "is aborted": "import os; print('before'); os.abort()",
    "looks around": (
        "import os, sys, socket; print(sys.argv, __name__, __file__, socket.gethostname(), os.getcwd(), os.environ['A'])\n"
        "print(os.getsid(0) == os.getpid(), os.getppid(), [l for l in open('/proc/self/status') if l.startswith('CapEff')])"
    ),
    "replaces the hook": "import sys\nsys.excepthook = lambda *e: print('hook', e[0].__name__)\n1/0",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_forked_program_behaves_as_an_executed_one(world, tmp_path, name):
    """Output, traceback, exit code, exit handlers, session, capabilities and environment are the same."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAMS[name])
    argv = [sys.executable, "-u", str(script), "--word"]
    world.preload(["json"], {"A": "other"})
    results = []
    for words in (0, 2):
        output = tmp_path / f"output{words}"
        with output.open("wb") as stream:
            job = world.spawn("beta", argv, env={"A": "b"}, cwd=tmp_path, output=stream.fileno(), preloaded=words)
        ended = world.wait_exit(20)
        assert ended.job == job
        results.append((ended.code, sorted(output.read_text().splitlines())))
    assert results[0] == results[1]


def test_sweep_spares_the_preloaded_process(world, tmp_path):
    """After a sweep, programs are still forked, and everything that they had started is gone."""
    script = tmp_path / "program.py"
    script.write_text("import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(300)")
    world.preload(["json"], {})
    for _ in range(2):
        world.spawn("alpha", ["python", str(script)], env={}, cwd=tmp_path, output=2, preloaded=1)
        world.sweep()
        assert world.wait_exit(20).code == -signal.SIGKILL
    code, output = run(world, "alpha", "ls -d /proc/[0-9]* | wc -l")
    assert code == 0
    assert int(output) <= 6, "init, the preloaded process, and what this very question needs"


def test_dead_preloaded_process_is_replaced_by_an_exec(world, tmp_path):
    """When the import failed, programs are executed instead."""
    script = tmp_path / "program.py"
    script.write_text("print('executed')")
    world.preload(["no_such_module_anywhere"], {})
    with (tmp_path / "output").open("wb") as stream:
        argv = [sys.executable, str(script)]
        world.spawn("alpha", argv, env=ENV, cwd=tmp_path, output=stream.fileno(), preloaded=1)
    assert world.wait_exit(20).code == 0
    assert (tmp_path / "output").read_text() == "executed\n"


def test_first_process_whose_tool_is_gone_ends_without_a_word(tmp_path):
    """Ctrl-C in the first moments of a drill: the tool says what happened, and no traceback stands before it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    with theirs:
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "firstfault.act.world_init"),
                *(str(theirs.fileno()), str(os.getpid()), str(tmp_path)),
            ],
            pass_fds=[theirs.fileno()], capture_output=True, check=False, timeout=60,
        )  # fmt: skip
    assert (ended.stdout, ended.stderr) == (b"", b"")
