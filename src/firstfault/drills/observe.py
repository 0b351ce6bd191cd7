"""What a person would collect of a stuck NCCL job while it still runs: flight-recorder dumps and the answers of RAS.

NCCL's RAS service listens on port 28028 of loopback, so each node is asked in its own network. A stuck job is asked
once, before its watchdog ends it: afterwards nobody answers.
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence

    from firstfault.act.world import LocalWorld
    from firstfault.drills.jobs import Process

__all__ = ["JobObserver", "extra_environment"]

_RAS_PORT = 28028
# RAS itself waits five seconds for peers that do not answer.
_RAS_PATIENCE_S = 10.0
_QUESTIONS = {"txt": b"VERBOSE STATUS\n", "json": b"SET FORMAT json\nVERBOSE STATUS\n"}
_LOOK_EVERY_S = 0.5
_MAX_ANSWER = 4 << 20
# The kernel names processes as the first pid namespace does, whose inode is fixed (PROC_PID_INIT_INO of proc_ns.h).
_FIRST_PID_NAMESPACE = "pid:[4026531836]"
_PID = re.compile(r"\bpid='?(\d+)")


def extra_environment(process: Process, logs: Path) -> dict[str, str]:
    """Return what a rank gets because all nodes are one machine, and where to keep more than its output."""
    if process.env.get("FIRSTFAULT_BACKEND") != "nccl":
        return {"FIRSTFAULT_LOGS": str(logs)}
    dump = str(logs / "nccl_trace_rank_")
    return {
        "FIRSTFAULT_LOGS": str(logs),
        "FIRSTFAULT_ONE_MACHINE": "1",
        # RAS takes the first address of "localhost", which may be ::1 (measured: NCCL 2.28.9 with both in /etc/hosts).
        "NCCL_RAS_ADDR": f"127.0.0.1:{_RAS_PORT}",
        # Two names, as PyTorch renamed them.
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": dump,
        "TORCH_FR_DUMP_TEMP_FILE": dump,
    }


class JobObserver:
    """Watches the log files of one job, and asks RAS when they have been silent.

    Args:
        net: Opens sockets in the nodes.
        hosts: Host name by node.
        job: The processes.
    """

    def __init__(self, net: LocalWorld, hosts: Mapping[str, str], job: Sequence[Process]) -> None:
        self._net = net
        self._hosts = dict(hosts)
        self._nccl = any(process.env.get("FIRSTFAULT_BACKEND") == "nccl" for process in job)
        self._size = -1
        self._changed = self._looked = time.monotonic()
        self._threads: list[threading.Thread] | None = None
        self._kernel = _open_kernel_log()
        self._pids: set[int] = set()

    def look(self, logs: Path, stuck_s: float) -> None:
        """Look at the sizes of the logs; ask RAS once when they have not changed for so long."""
        now = time.monotonic()
        if not self._nccl or now - self._looked < _LOOK_EVERY_S:
            return
        self._looked = now
        if self._kernel is not None:
            self._pids |= _processes_beside(self._net.footprint.init)
        if self._threads is not None:
            return
        size = sum(path.stat().st_size for path in logs.glob("*.log"))
        if size != self._size:
            self._size, self._changed = size, now
        elif now - self._changed >= stuck_s:
            self._ask(logs)

    def _ask(self, logs: Path) -> None:
        self._threads = []
        for node, host in self._hosts.items():
            for suffix, question in _QUESTIONS.items():
                arguments = (self._net.socket(node, "tcp"), question, logs / f"nccl-ras.{host}.{suffix}")
                thread = threading.Thread(target=_ask_ras, args=arguments, daemon=True)
                thread.start()
                self._threads.append(thread)

    def finish(self, logs: Path) -> None:
        """Wait for the answers that are under way; keep what the kernel said of the job's GPUs meanwhile.

        What it said of other processes on this machine is left out: their faults are not the drill's.
        """
        if self._kernel is not None:
            if found := [line for line in _gpu_lines(self._kernel) if not self._is_of_others(line)]:
                (logs / "kernel.log").write_text("".join(f"{line}\n" for line in found))
            os.close(self._kernel)
            self._kernel = None
        for thread in self._threads or []:
            thread.join(_RAS_PATIENCE_S)

    def _is_of_others(self, line: str) -> bool:
        named = _PID.search(line)
        return bool(self._pids) and named is not None and int(named[1]) not in self._pids


def _processes_beside(pid: int) -> set[int]:
    """Return the processes in the pid namespace of one; none where the kernel's log would name them otherwise."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        if str(Path("/proc/self/ns/pid").readlink()) != _FIRST_PID_NAMESPACE:
            return found
        namespace = Path(f"/proc/{pid}/ns/pid").readlink()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if (process / "ns/pid").readlink() == namespace:
                    found.add(int(process.name))
    return found


def _ask_ras(sock: socket.socket, question: bytes, path: Path) -> None:
    """Write down what RAS answers; a service that is not there answers nothing, and no file is written."""
    answer = b""
    with sock:
        sock.settimeout(_RAS_PATIENCE_S)
        with contextlib.suppress(OSError):
            sock.connect(("127.0.0.1", _RAS_PORT))
            sock.sendall(question)
            while len(answer) < _MAX_ANSWER and (part := sock.recv(1 << 16)):
                answer += part
    if answer:
        path.write_bytes(answer)


def _open_kernel_log() -> int | None:
    """Return a descriptor of the kernel log at its end; None where this user may not read it."""
    try:
        kernel = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    os.lseek(kernel, 0, os.SEEK_END)
    return kernel


def _gpu_lines(kernel: int) -> list[str]:
    """Return the new lines of NVIDIA's driver, as `dmesg` shows them. A record is `priority,number,usec,-;text`."""
    found: list[str] = []
    while True:
        try:
            record = os.read(kernel, 8192).decode(errors="replace")
        except BrokenPipeError:
            continue  # records were overwritten before they were read
        except OSError:
            return found
        head, _, text = record.partition(";")
        if "NVRM:" in text and head.count(",") >= 2:
            seconds = int(head.split(",")[2]) / 1e6
            found.append(f"[{seconds:12.6f}] {text.splitlines()[0]}")
