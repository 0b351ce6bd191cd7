"""The local world: nodes as network namespaces on one switch, owned by one process, gone when that process is gone.

The tool keeps its own namespaces. It starts `firstfault.act.world_init`, and asks it for everything that needs the
world's capabilities: nodes, netlink, sockets, jobs. As root with CAP_SYS_ADMIN and CAP_NET_ADMIN no user namespace is
made; otherwise the user becomes the owner of one, without any privilege outside it.

The world lives as long as the `LocalWorld` object's process, and not longer than the thread that started it.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import select
import socket
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import msgspec

from firstfault.act import firewall, links, netlink, nftables, wire
from firstfault.act.support import HostPolicy, explain, require_linux
from firstfault.errors import ExitCode, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from firstfault.model.securitygroups import SecurityGroup

__all__ = ["Footprint", "JobExit", "LocalWorld", "NodeSpec", "WorldLostError", "leftovers", "started_at"]

SWITCH = "switch"
CABLE = "eth0"
_START_SECONDS = 20.0
_CARRIER_SECONDS = 5.0
_REQUEST_SECONDS = 180.0


class WorldLostError(UnsupportedError):
    """The world's first process ended while it was needed (killed from outside, out of memory).

    Exit code 1, not 2: the drill had begun, and did not go as expected. Its fault is gone with the world.
    """

    exit_code = ExitCode.FINDING


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One node to make.

    Attributes:
        name: How requests refer to it.
        hostname: Host name inside, as a Pod would have.
        address: IPv4 address with prefix length.
        files: Files laid over those of the machine, by absolute path, for this node only.
    """

    name: str
    hostname: str
    address: str
    files: dict[str, str] = {}


class JobExit(NamedTuple):
    """A job has ended: its id, exit code (negative: the signal), and when (seconds since the epoch)."""

    job: int
    code: int
    time: float


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """What identifies a world to a later process that must make sure that it is gone.

    Process ids are used again, so each comes with its start time (clock ticks since boot, as in /proc/PID/stat). The
    two processes are enough: the kernel ends every process of a pid namespace before it lets go of the first one, and
    with the last process go the other namespaces, their mounts and their rules. (Inode numbers of namespaces would not
    do: the kernel gives them to the next namespace at once.)

    Attributes:
        stub: The process that holds init, outside the world.
        init: Process 1 of the world, by its id outside.
    """

    stub: int
    stub_started: int
    init: int
    init_started: int


class LocalWorld:
    """Nodes on one switch; a context manager.

    Args:
        nodes: The nodes to make.
        scratch: An empty directory; inside the world, and only there, a memory file system is mounted on it.
        table: Name of the nf_tables table that holds a node's firewall.

    Raises:
        UnsupportedError: Not Linux, or the kernel or a sandbox refuses; nothing is left behind.
    """

    def __init__(self, nodes: Sequence[NodeSpec], *, scratch: Path, table: str = "firstfault") -> None:
        self.nodes = {node.name: node for node in nodes}
        self.table = table
        self._scratch = scratch
        self._control: socket.socket | None = None
        self._stub: subprocess.Popen[bytes] | None = None
        self._last = 0
        self._exits: deque[JobExit] = deque()
        self._cables: dict[str, str] = {}
        self._footprint: Footprint | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def start(self) -> None:
        """Make the namespaces, the switch and the nodes; some 40 ms.

        Raises:
            UnsupportedError: See the class.
        """
        require_linux()
        self._scratch.mkdir(parents=True, exist_ok=True)
        try:
            self._start_init()
            for node in self.nodes.values():
                self._make_node(node)
        except BaseException:
            self.close()
            raise

    def _start_init(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, wire.MAX_MESSAGE)
        self._control = ours
        package_root = str(Path(__file__).parents[2])
        search = [package_root, *filter(None, [os.environ.get("PYTHONPATH")])]
        with theirs:
            self._stub = subprocess.Popen(
                [
                    *(sys.executable, "-m", "firstfault.act.world_init"),
                    *(str(theirs.fileno()), str(os.getpid()), str(self._scratch)),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(search)},
                # Ctrl-C in the terminal is for the tool, which takes its fault back before it ends the world.
                start_new_session=True,
            )
        init, ready = 0, False
        while not (init and ready):
            message, _ = self._receive(_START_SECONDS)
            if message["event"] == "failed":
                raise self._refused(message["error"])
            ready = ready or message["event"] == "ready"
            init = message.get("init", init)
        stub = self._stub.pid
        self._footprint = Footprint(stub=stub, stub_started=started_at(stub), init=init, init_started=started_at(init))

    def _make_node(self, node: NodeSpec) -> None:
        made = self.request("node", name=node.name, hostname=node.hostname, address=node.address, files=node.files)
        self._cables[node.name] = made["cable"]

    def close(self) -> None:
        """End everything in the world and wait until it has ended; harmless when called again."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._stub is not None:
            try:
                self._stub.wait(_START_SECONDS)
            except subprocess.TimeoutExpired:
                self._stub.kill()  # init follows it: it asked for that signal
                self._stub.wait()
            self._stub = None

    @property
    def footprint(self) -> Footprint:
        """What a later process needs to make sure that this world is gone."""
        assert self._footprint is not None, "the world is not started"
        return self._footprint

    # -- talking to init -------------------------------------------------------------------------------------------

    def _receive(self, seconds: float) -> tuple[dict[str, Any], list[int]]:
        assert self._control is not None, "the world is not started"
        ready, _, _ = select.select([self._control], [], [], max(0.0, seconds))
        if not ready:
            raise WorldLostError("the local world does not answer; it is being ended", "run the drill again")
        try:
            message, fds = wire.receive(self._control)
        except ConnectionResetError:
            message = None
        if message is None:
            raise WorldLostError("the local world ended unexpectedly", "run the drill again; see `dmesg` for a kill")
        return message, fds

    def _request(self, operation: str, arguments: Mapping[str, Any], fds: Sequence[int]) -> tuple[Any, list[int]]:
        assert self._control is not None, "the world is not started"
        self._last += 1
        try:
            wire.send(self._control, {"id": self._last, "op": operation, **arguments}, fds)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise WorldLostError("the local world is gone", "run the drill again") from error
        while True:
            message, received = self._receive(_REQUEST_SECONDS)
            if message.get("id") == self._last:
                break
            # An event, or the answer to a request whose caller was interrupted.
            for fd in received:
                os.close(fd)
            self._note(message)
        if problem := message.get("error"):
            if problem["stage"]:
                raise self._refused(problem)
            raise OSError(problem["errno"], problem["text"])
        return message["result"], received

    def request(self, operation: str, **arguments: Any) -> Any:
        """Ask init for one operation (`do_<operation>` in world_init).

        Raises:
            OSError: The kernel refused.
            WorldLostError: Init is gone.
        """
        return self._request(operation, arguments, ())[0]

    def _note(self, message: dict[str, Any]) -> None:
        if message.get("event") == "exit":
            self._exits.append(JobExit(message["job"], message["code"], message["time"]))

    @staticmethod
    def _refused(problem: dict[str, Any]) -> UnsupportedError:
        return explain(problem["stage"], problem["errno"], problem["text"], HostPolicy.read())

    # -- network ---------------------------------------------------------------------------------------------------

    def netlink(
        self, where: str, family: int, requests: Sequence[netlink.Request], *, batch: bool = False
    ) -> list[list[bytes]]:
        """Send netlink requests in a node or the switch.

        Raises:
            OSError: The kernel refused; the text names the request.
        """
        encoded = [[r.kind, r.flags, base64.b64encode(r.body).decode(), r.label] for r in requests]
        replies = self.request("netlink", where=where, family=family, requests=encoded, batch=batch)
        return [[base64.b64decode(body) for body in bodies] for bodies in replies]

    def set_firewall(
        self, node: str, groups: Sequence[SecurityGroup], members: dict[str, list[str]], *, reject: bool = False
    ) -> None:
        """Make a node obey security groups; replaces what this method installed before, in one transaction.

        Raises:
            UnsupportedError: The kernel has no nf_tables.
        """
        requests = firewall.requests_for(self.table, groups, members, reject=reject)
        try:
            self.netlink(node, netlink.NETLINK_NETFILTER, requests, batch=True)
        except OSError as error:
            raise explain("firewall", error.errno or 0, str(error), HostPolicy.read()) from error

    def firewall(self, node: str) -> firewall.FirewallState:
        """Read a node's firewall back from the kernel."""
        (bodies,) = self.netlink(node, netlink.NETLINK_NETFILTER, [nftables.rules_of(self.table)])
        return firewall.read_state(bodies)

    def all_rules(self, node: str) -> str:
        """Return a digest of every inet rule of a node, counters left out, whoever made it."""
        (bodies,) = self.netlink(node, netlink.NETLINK_NETFILTER, [nftables.all_rules()])
        found = [nftables.read_rule(body) for body in bodies]
        text = "\n".join(f"{rule.table} {rule.chain} {rule.comment} {rule.digest}" for rule in found)
        return hashlib.sha256(text.encode()).hexdigest()

    def set_link(self, node: str, *, up: bool) -> None:
        """Plug a node's cable into the switch, or pull it out; plugged in, it carries packets when this returns.

        Raises:
            OSError: The cable stays without carrier.
        """
        cable = self._cables[node]
        self.netlink(SWITCH, netlink.NETLINK_ROUTE, [links.set_link(cable, up=up)])
        deadline = time.monotonic() + _CARRIER_SECONDS
        while up and not self._carries(node, cable):
            if time.monotonic() > deadline:
                raise OSError(errno.ENETDOWN, f"{node}: its cable has no carrier")
            time.sleep(0.005)

    def _carries(self, node: str, cable: str) -> bool:
        """Whether both ends of a cable are up: the kernel brings a link up some time after it was told to."""
        for where, name in ((SWITCH, cable), (node, CABLE)):
            ((*_, body),) = self.netlink(where, netlink.NETLINK_ROUTE, [links.get_link(name)])
            if not links.is_up(body):
                return False
        return True

    def limit_rate(self, node: str, bits_per_second: int | None) -> None:
        """Let a node receive no faster than so many bits per second; None: as fast as the machine can."""
        index = self.request("ifindex", name=self._cables[node])
        if bits_per_second is not None:
            self.netlink(SWITCH, netlink.NETLINK_ROUTE, [links.limit_rate(index, bits_per_second)])
            return
        try:
            self.netlink(SWITCH, netlink.NETLINK_ROUTE, [links.delete_qdisc(index)])
        except OSError as error:
            if error.errno not in {errno.ENOENT, errno.EINVAL}:  # there is none
                raise

    def unplug_from_bridge(self, node: str) -> socket.socket:
        """Take a node's cable out of the bridge; return a socket that gets its frames, with virtio headers."""
        self.netlink(SWITCH, netlink.NETLINK_ROUTE, [links.set_master(self._cables[node], 0)])
        _, fds = self._request("packet_socket", {"cable": self._cables[node]}, ())
        return socket.socket(fileno=fds[0])

    def plug_into_bridge(self, node: str) -> None:
        """Put a node's cable back into the bridge; harmless when it is there."""
        bridge = self.request("ifindex", name="br0")
        self.netlink(SWITCH, netlink.NETLINK_ROUTE, [links.set_master(self._cables[node], bridge)])

    def socket(self, where: str, kind: Literal["tcp", "udp"], bind: tuple[str, int] | None = None) -> socket.socket:
        """Return a socket that lives in a node's network, bound (and for TCP listening) where asked.

        Raises:
            OSError: The address is in use, or not the node's.
        """
        _, fds = self._request("socket", {"where": where, "kind": kind, "bind": bind}, ())
        return socket.socket(fileno=fds[0])

    def setting(self, where: str, name: str, value: str) -> str:
        """Set a kernel setting of a node's network (`net.ipv4.tcp_syn_retries`); return what it was."""
        path = "/proc/sys/" + name.replace(".", "/")
        before: str = self.request("write", where=where, path=path, value=value)
        return before

    # -- jobs ------------------------------------------------------------------------------------------------------

    def preload(self, modules: Sequence[str], env: Mapping[str, str]) -> None:
        """Begin to import modules in a process of the world, from which programs can be forked; returns at once."""
        self.request("preload", modules=list(modules), env=dict(env))

    def spawn(
        self, where: str, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, output: int, preloaded: int = 0
    ) -> int:
        """Start a program in a node, without capabilities, in a session of its own.

        Args:
            where: The node.
            argv: Program (absolute path) and arguments.
            env: Its whole environment.
            cwd: Its working directory.
            output: Descriptor that becomes its standard output and error.
            preloaded: Fork it from the preloaded process, if there is one; so many words of `argv` come before the
                script's own (interpreter and options). 0: execute `argv`.

        Returns:
            The job's id within the world.

        Raises:
            OSError: The program cannot be executed.
        """
        arguments = {"where": where, "argv": list(argv), "env": dict(env), "cwd": str(cwd), "preloaded": preloaded}
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - a descriptor is what is needed
            job: int = self._request("spawn", arguments, [nothing.fileno(), output, output])[0]
        return job

    def signal(self, job: int, number: int, *, group: bool = True) -> bool:
        """Signal a job (by default its whole process group); False when it has ended already."""
        sent: bool = self.request("signal", job=job, signal=number, group=group)
        return sent

    def signal_program(self, job: int, number: int) -> bool:
        """Signal the program that a job's shell or launcher has started, or the job itself; False when it has ended."""
        sent: bool = self.request("signal_program", job=job, signal=number)
        return sent

    def limit_memory(self, job: int, headroom: int) -> None:
        """Let a job's program map only so many bytes more than it has mapped (RLIMIT_AS)."""
        self.request("limit_memory", job=job, headroom=headroom)

    def mount_tmpfs(self, where: str, target: str, size: int) -> None:
        """Lay an empty memory file system of so many bytes over a folder of a node.

        Raises:
            OSError: The folder does not exist.
        """
        self.request("mount_tmpfs", where=where, target=target, size=size)

    def unmount(self, where: str, target: str) -> None:
        """Take away what `mount_tmpfs` laid over a folder; harmless when nothing is."""
        self.request("unmount", where=where, target=target)

    def sweep(self) -> None:
        """End every process in the world except its first."""
        self.request("sweep")

    def wait_exit(self, seconds: float) -> JobExit | None:
        """Wait for the next job to end; None when none ended in that time."""
        deadline = time.monotonic() + seconds
        while not self._exits:
            assert self._control is not None, "the world is not started"
            remaining = deadline - time.monotonic()
            if not select.select([self._control], [], [], max(0.0, remaining))[0]:
                return None
            self._note(self._receive(0)[0])
        return self._exits.popleft()


def started_at(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def leftovers(footprint: Footprint) -> Iterator[str]:
    """Say which of a world's two processes is still there. Nothing, normally."""
    if started_at(footprint.stub) == footprint.stub_started != 0:
        yield f"process {footprint.stub} (stub of the world)"
    if started_at(footprint.init) == footprint.init_started != 0:
        yield f"process {footprint.init} (first process of the world)"
