"""The first process of a local world: owns its namespaces, and takes them with it when it ends.

Started by `firstfault.act.world` as `python -m firstfault.act.world_init FD`. It becomes two processes: a stub outside,
and "init", process 1 of a new pid namespace, inside a user namespace unless it already has the capabilities. Nobody
else holds the network, mount, host-name, IPC and pid namespaces, so the end of init is the end of everything in them.
Init ends when the control socket closes (the tool ended, however it ended), and as a second guard when the stub does.

Init knows nothing about drills. It makes nodes, forwards netlink requests into them, opens sockets in them, and starts
and signals jobs. It is single-threaded and imports little, as it must be there within some ten milliseconds.
"""

from __future__ import annotations

import base64
import contextlib
import os
import resource
import selectors
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from firstfault.act import links, netlink, syscalls, wire
from firstfault.act.preload import Preloaded, preload
from firstfault.parent import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["main"]

SWITCH = "switch"
BRIDGE = "br0"
CABLE = "eth0"
_WORLD = (
    syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC
)
_SWEEP_SECONDS = 20.0
_NEEDED = (1 << syscalls.CAP_SYS_ADMIN) | (1 << syscalls.CAP_NET_ADMIN)


class StageError(Exception):
    """A step of the set-up that the kernel or a sandbox refused: its name, and the error."""

    def __init__(self, stage: str, error: OSError) -> None:
        super().__init__(f"{stage}: {error}")
        self.stage = stage
        self.error = error


@contextlib.contextmanager
def stage(name: str) -> Iterator[None]:
    """Name the step in which an OSError arises."""
    try:
        yield
    except OSError as error:
        raise StageError(name, error) from error


class Place:
    """One network namespace with its host name and files: the switch, or a node.

    Attributes:
        namespaces: Descriptors of its namespaces, by clone flag.
    """

    def __init__(self, namespaces: dict[int, int]) -> None:
        self.namespaces = namespaces
        self.netlink: dict[int, socket.socket] = {}

    def enter(self) -> None:
        """Move the calling process here for good (a job before its exec)."""
        for flag, fd in self.namespaces.items():
            syscalls.setns(fd, flag)


class Init:
    """Serves the requests of the tool; one method per operation, named `do_<operation>`."""

    def __init__(self, control: socket.socket, scratch: str) -> None:
        self.control = control
        self.scratch = scratch
        self.home_net = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.home_mnt = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self.home_uts = os.open("/proc/self/ns/uts", os.O_RDONLY | os.O_CLOEXEC)
        self.places: dict[str, Place] = {SWITCH: Place({syscalls.CLONE_NEWNET: self.home_net})}
        self.neighbours: dict[str, tuple[str, int]] = {}
        self.jobs: dict[int, int] = {}
        self.preloaded: Preloaded | None = None
        self.files = 0
        with stage("bridge"):
            self._netlink(SWITCH, netlink.NETLINK_ROUTE, [links.set_link("lo", up=True), links.add_bridge(BRIDGE)])
            self.bridge = socket.if_nametoindex(BRIDGE)

    @contextlib.contextmanager
    def _inside(self, place: Place) -> Iterator[None]:
        """Be in a place's network namespace for a moment; what is opened there stays bound to it."""
        syscalls.setns(place.namespaces[syscalls.CLONE_NEWNET], syscalls.CLONE_NEWNET)
        try:
            yield
        finally:
            syscalls.setns(self.home_net, syscalls.CLONE_NEWNET)

    def _netlink(
        self, where: str, family: int, requests: list[netlink.Request], *, batch: bool = False
    ) -> list[list[bytes]]:
        place = self.places[where]
        if family not in place.netlink:
            with self._inside(place):
                place.netlink[family] = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        return netlink.transact(place.netlink[family], requests, batch=batch)

    def do_node(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Make a node: its namespaces, files, host name, cable to the switch and address."""
        name: str = request["name"]
        with stage("node"):
            syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWNET)
        try:
            with stage("mount"):
                for target, content in request["files"].items():
                    self._cover(target, content)
            socket.sethostname(request["hostname"])
            place = Place({})
            for kind, flag in (
                ("net", syscalls.CLONE_NEWNET),
                ("uts", syscalls.CLONE_NEWUTS),
                ("mnt", syscalls.CLONE_NEWNS),
            ):
                place.namespaces[flag] = os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            syscalls.setns(self.home_net, syscalls.CLONE_NEWNET)
            syscalls.setns(self.home_uts, syscalls.CLONE_NEWUTS)
            syscalls.setns(self.home_mnt, syscalls.CLONE_NEWNS)
        self.places[name] = place
        cable = f"v{len(self.places) - 2}"
        net = place.namespaces[syscalls.CLONE_NEWNET]
        with stage("veth"):
            self._netlink(
                SWITCH,
                netlink.NETLINK_ROUTE,
                [
                    links.add_veth(
                        cable,
                        CABLE,
                        peer_address=request["address"].partition("/")[0],
                        peer_netns_fd=net,
                        bridge_index=self.bridge,
                    )
                ],
            )
            with self._inside(place):
                index = socket.if_nametoindex(CABLE)
            self._netlink(
                name,
                netlink.NETLINK_ROUTE,
                [
                    links.set_link("lo", up=True),
                    links.set_link(CABLE, up=True),
                    links.add_address(index, request["address"]),
                ],
            )
            self._introduce(name, request["address"].partition("/")[0], index)
            with self._inside(place), contextlib.suppress(OSError):
                # Security groups here are IPv4; neighbour discovery would only show up as refused packets.
                Path(f"/proc/sys/net/ipv6/conf/{CABLE}/disable_ipv6").write_text("1")
        return {"cable": cable}, []

    def _introduce(self, name: str, address: str, index: int) -> None:
        """Tell a new node the hardware addresses of the others, and the others that of the new one."""
        for other, (its_address, its_index) in self.neighbours.items():
            self._netlink(name, netlink.NETLINK_ROUTE, [links.add_neighbour(index, its_address)])
            self._netlink(other, netlink.NETLINK_ROUTE, [links.add_neighbour(its_index, address)])
        self.neighbours[name] = (address, index)

    def _cover(self, target: str, content: str) -> None:
        """Lay a file of the world over one of the machine; only this mount namespace sees it."""
        self.files += 1
        path = f"{self.scratch}/file{self.files}"
        Path(path).write_text(content)
        syscalls.mount(path, os.path.realpath(target), flags=syscalls.MS_BIND)

    def do_netlink(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Send netlink requests in a place and return what the kernel sent back."""
        requests = [
            netlink.Request(kind, flags, base64.b64decode(body), label)
            for kind, flags, body, label in request["requests"]
        ]
        replies = self._netlink(request["where"], request["family"], requests, batch=request["batch"])
        return [[base64.b64encode(body).decode() for body in bodies] for bodies in replies], []

    def do_socket(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Open a socket in a place and hand it over; it may be bound to any port, and listen."""
        with self._inside(self.places[request["where"]]):
            kind = socket.SOCK_STREAM if request["kind"] == "tcp" else socket.SOCK_DGRAM
            sock = socket.socket(socket.AF_INET, kind | socket.SOCK_CLOEXEC)
            try:
                if request.get("bind"):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    sock.bind(tuple(request["bind"]))
                    if request["kind"] == "tcp":
                        sock.listen(64)
            except OSError:
                sock.close()
                raise
        return None, [sock.detach()]

    def do_packet_socket(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Open a socket for whole frames on one of the switch's cables and hand it over.

        With virtio headers a frame keeps what the sender left to the hardware (checksum, segmentation); without its
        own outgoing frames, so that what is forwarded does not come back.
        """
        level, ignore_outgoing, headers, every_protocol = 263, 23, 15, 3
        with self._inside(self.places[SWITCH]):
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
            try:
                sock.setsockopt(level, headers, 1)
                sock.setsockopt(level, ignore_outgoing, 1)
                sock.bind((request["cable"], every_protocol))
            except OSError:
                sock.close()
                raise
        return None, [sock.detach()]

    def do_ifindex(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Return the number of an interface of the switch."""
        with self._inside(self.places[SWITCH]):
            return socket.if_nametoindex(request["name"]), []

    def do_write(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Write a kernel setting (/proc/sys/net/…) of a place; return what it was."""
        with self._inside(self.places[request["where"]]):
            path = Path(request["path"])
            before = path.read_text()
            path.write_text(request["value"])
        return before.strip(), []

    def do_preload(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Have a process import modules, for programs that are started with `preloaded`."""
        self.preloaded = preload(request["modules"], request["env"], [self.control.fileno()])
        return None, []

    def do_spawn(self, request: dict[str, Any], fds: list[int]) -> tuple[Any, list[int]]:
        """Start a program in a place, without any capability; its exit comes as an event."""
        if request["preloaded"] and self.preloaded:
            job = {key: request[key] for key in ("env", "cwd")} | {"argv": request["argv"][request["preloaded"] :]}
            started = self.preloaded.start(job, fds[:3], self.places[request["where"]].namespaces)
            if started is not None:
                self.jobs[started] = started
                return started, []
            self.preloaded = None
        failed, report = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            _become_job(self.places[request["where"]], request, fds, report)
        os.close(report)
        with os.fdopen(failed, "rb") as pipe:
            problem = pipe.read()
        if problem:
            os.waitpid(pid, 0)
            number, _, text = problem.decode().partition(":")
            raise OSError(int(number), text)
        self.jobs[pid] = pid
        return pid, []

    def do_signal(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Signal a job, by default with everything in its session's process group."""
        send = os.killpg if request["group"] else os.kill
        try:
            send(request["job"], request["signal"])
        except ProcessLookupError:
            return False, []
        return True, []

    def _program(self, job: int) -> int:
        """Return the process that a job's shell or launcher runs: its first child, else the job itself."""
        try:
            children = Path(f"/proc/{job}/task/{job}/children").read_text().split()
        except OSError:
            return job
        return int(children[0]) if children else job

    def do_signal_program(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Signal what a job runs."""
        try:
            os.kill(self._program(request["job"]), request["signal"])
        except ProcessLookupError:
            return False, []
        return True, []

    def do_limit_memory(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Limit the address space of what a job runs to what it has and some more."""
        pid = self._program(request["job"])
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + request["headroom"]
        resource.prlimit(pid, resource.RLIMIT_AS, (limit, limit))
        return None, []

    def do_mount_tmpfs(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Mount a small file system in a node."""
        flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
        with self._mounts_of(self.places[request["where"]]):
            syscalls.mount("tmpfs", request["target"], "tmpfs", flags, f"mode=1777,size={request['size']}")
        return None, []

    def do_unmount(self, request: dict[str, Any], _: list[int]) -> tuple[Any, list[int]]:
        """Take the topmost mount of a folder in a node away, if it is one."""
        with self._mounts_of(self.places[request["where"]]), contextlib.suppress(OSError):
            syscalls.unmount(request["target"])
        return None, []

    @contextlib.contextmanager
    def _mounts_of(self, place: Place) -> Iterator[None]:
        """Be in a place's mount namespace for a moment."""
        syscalls.setns(place.namespaces[syscalls.CLONE_NEWNS], syscalls.CLONE_NEWNS)
        try:
            yield
        finally:
            syscalls.setns(self.home_mnt, syscalls.CLONE_NEWNS)

    def do_sweep(self, _: dict[str, Any], __: list[int]) -> tuple[Any, list[int]]:
        """End every process of the world except init, whatever session or group it fled to."""
        if self.preloaded and str(Path("/proc/self").readlink()) == "1":
            self._sweep_all_but(self.preloaded.pid)
            return None, []
        self.preloaded = None
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        self.reap(block=True)
        return None, []

    def _sweep_all_but(self, spared: int) -> None:
        """End every process of the world except init and one."""
        deadline = time.monotonic() + _SWEEP_SECONDS
        while time.monotonic() < deadline:
            self.reap()
            others = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()} - {1, spared}
            if not others:
                return
            for pid in others:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)

    def reap(self, *, block: bool = False) -> None:
        """Collect ended children; report those that were jobs."""
        while True:
            try:
                pid, status = os.waitpid(-1, 0 if block else os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.jobs.pop(pid, None):
                code = os.waitstatus_to_exitcode(status)
                wire.send(self.control, {"event": "exit", "job": pid, "code": code, "time": time.time()})

    def serve(self) -> None:
        """Answer until the tool is gone."""
        wake, waker = socket.socketpair()
        wake.setblocking(False)
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self.control, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if wake in ready:
                    with contextlib.suppress(BlockingIOError):
                        wake.recv(4096)
                    self.reap()
                if self.control in ready and not self._answer():
                    return

    def _answer(self) -> bool:
        message, fds = wire.receive(self.control)
        if message is None:
            return False
        given: list[int] = []
        try:
            operation: Callable[..., tuple[Any, list[int]]] = getattr(self, f"do_{message['op']}")
            result, given = operation(message, fds)
            wire.send(self.control, {"id": message["id"], "result": result}, given)
        except (OSError, StageError) as problem:
            wire.send(self.control, {"id": message["id"], "error": _describe(problem)})
        finally:
            for fd in (*fds, *given):
                os.close(fd)
        return True


def _describe(problem: OSError | StageError) -> dict[str, Any]:
    error = problem.error if isinstance(problem, StageError) else problem
    name = problem.stage if isinstance(problem, StageError) else ""
    return {"errno": error.errno or 0, "text": error.strerror or str(error), "stage": name}


def _become_job(place: Place, request: dict[str, Any], fds: list[int], report: int) -> NoReturn:
    """Turn the forked child into the job; errors go to the pipe that a successful exec closes."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        place.enter()
        os.chdir(request["cwd"])
        for target, fd in enumerate(fds[:3]):
            os.dup2(fd, target, inheritable=True)
        syscalls.drop_capabilities()
        os.execve(request["argv"][0], request["argv"], request["env"])  # noqa: S606 - no shell is meant to be there
    except OSError as error:
        os.write(report, f"{error.errno}:{error.strerror}: {error.filename or request['argv'][0]}".encode())
    finally:
        os._exit(127)


def _map_user() -> None:
    """Map the user to his own id: what init executes is then an ordinary process without capabilities."""
    uid, gid = os.getuid(), os.getgid()
    return_maps = {"setgroups": "deny", "gid_map": f"{gid} {gid} 1", "uid_map": f"{uid} {uid} 1"}
    with stage("unshare"):
        syscalls.unshare(syscalls.CLONE_NEWUSER | _WORLD)
    for name, content in return_maps.items():
        with stage(name):
            Path(f"/proc/self/{name}").write_text(content)


def _mounts(scratch: str) -> None:
    """Make the mounts that all nodes share. None of them is visible outside."""
    with stage("mount"):
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
        syscalls.mount("tmpfs", scratch, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=0755,size=64m")
        # Jobs keep their shared memory and name-service sockets apart from the machine's.
        for path in ("/dev/shm", "/run/nscd"):  # noqa: S108 - covered, not used as a temporary file
            if os.path.isdir(path):  # noqa: PTH112 - pathlib costs start-up time here
                syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=1777")
    # Where parts of /proc are masked (containers) a fresh one is refused; the old one serves all that init needs.
    with contextlib.suppress(OSError):
        syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)


def _run_init(control: socket.socket, scratch: str) -> NoReturn:
    code = 1
    try:
        die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        _mounts(scratch)
        init = Init(control, scratch)
        wire.send(control, {"event": "ready"})
        init.serve()
        code = 0
    except (OSError, StageError) as problem:
        with contextlib.suppress(OSError):
            wire.send(control, {"event": "failed", "error": _describe(problem)})
    finally:
        os._exit(code)


def main(arguments: list[str]) -> int:
    """Make the namespaces and serve.

    Args:
        arguments: Control socket's descriptor, process id of the tool, empty directory for the world's own files.
    """
    control = socket.socket(fileno=int(arguments[0]))
    os.set_inheritable(control.fileno(), False)
    try:
        die_with_parent(signal.SIGKILL)
        if os.getppid() != int(arguments[1]):
            return 1  # the tool died before the line above could take effect
        if syscalls.effective_capabilities() & _NEEDED == _NEEDED:
            with stage("unshare"):
                syscalls.unshare(_WORLD)
        else:
            _map_user()
        pid = os.fork()
    except (OSError, StageError) as problem:
        with contextlib.suppress(OSError):  # the tool was told to end meanwhile, and listens no more
            wire.send(control, {"event": "failed", "error": _describe(problem)})
        return 1
    if pid == 0:
        _run_init(control, arguments[2])
    with contextlib.suppress(OSError):  # as above: init sees it, too, and ends
        wire.send(control, {"event": "forked", "init": pid})
    control.close()
    os.waitpid(pid, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
