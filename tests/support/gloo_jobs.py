"""Starts real torch.distributed jobs on loopback, each with one fault, and keeps what the ranks print.

Run as a program: `python gloo_jobs.py FOLDER [JOB …]`. Torch is imported once; every rank is a fork of this process
with its own environment, its output going to FOLDER/JOB/rank<r>.log as a person would have saved it.
"""

from __future__ import annotations

import os
import runpy
import signal
import socket
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # it is also run as a program
from support.ports import closed_port

ALL_REDUCE = Path(__file__).parents[2] / "src/firstfault/drills/programs/all_reduce.py"
TIMEOUT_S = 4
# For jobs whose ranks meet and end by themselves: on a busy machine they take longer to meet.
PATIENT = {"FIRSTFAULT_TIMEOUT": "40"}

RAISES = """
import runpy, sys
import torch.distributed as dist
real = dist.all_reduce
calls = 0
def all_reduce(*args, **kwargs):
    global calls
    calls += 1
    if calls == 3 and dist.get_rank() == 1:
        raise ValueError("batch 17 has 12 labels for 16 samples")
    return real(*args, **kwargs)
dist.all_reduce = all_reduce
"""
DIES = RAISES.replace('raise ValueError("batch 17 has 12 labels for 16 samples")', "import os; os.kill(os.getpid(), 9)")
MIXES = RAISES.replace(
    'raise ValueError("batch 17 has 12 labels for 16 samples")', "return dist.broadcast(args[0], src=0)"
).replace("calls == 3", "calls >= 3")


def silent_port(stack: ExitStack) -> int:
    """A port of loopback that swallows connection attempts, as behind a security group: its backlog is full."""
    server = stack.enter_context(socket.socket())
    server.bind(("127.0.0.1", 0))
    server.listen(0)
    for _ in range(4):
        filler = stack.enter_context(socket.socket())
        filler.setblocking(False)
        with suppress(BlockingIOError):
            filler.connect(server.getsockname())
    return int(server.getsockname()[1])


def taken_port(stack: ExitStack) -> int:
    """A port of loopback on which somebody else listens."""
    server = stack.enter_context(socket.socket(socket.AF_INET6))
    server.bind(("::", 0))
    server.listen(8)
    return int(server.getsockname()[1])


def jobs(stack: ExitStack) -> dict[str, list[tuple[dict[str, str], str]]]:
    """Job → per rank its environment beyond the usual, and code to run before the program."""
    ports = {name: str(closed_port()) for name in ("healthy", "missing", "raises", "dies", "mixes", "interface", "two")}
    silent, taken, dead = str(silent_port(stack)), str(taken_port(stack)), str(closed_port())

    def pair(port: str, second: str = "", *, world: str = "2", code: str = "", **more: str) -> list:
        return [
            ({"RANK": "0", "WORLD_SIZE": world, "MASTER_PORT": port, **more}, code),
            ({"RANK": "1", "WORLD_SIZE": world, "MASTER_PORT": second or port, **more}, code),
        ]

    return {
        "healthy": pair(ports["healthy"], **PATIENT),
        "dropped": pair(ports["two"], silent),
        "refused": pair(str(closed_port()), dead),
        "unresolved": pair(str(closed_port()), MASTER_ADDR="nccl-master.invalid")[1:],
        "missing": pair(ports["missing"], world="3"),
        "port-in-use": pair(taken)[:1],
        "environment": [({"WORLD_SIZE": "2", "MASTER_PORT": dead}, "")],
        "raises": pair(ports["raises"], code=RAISES, **PATIENT),
        "dies": pair(ports["dies"], code=DIES, **PATIENT),
        "interface": pair(ports["interface"], GLOO_SOCKET_IFNAME="nope0", **PATIENT),
    }


def start(folder: Path, rank: int, environment: dict[str, str], code: str) -> int:
    """Fork one rank; return its process id."""
    process = os.fork()
    if process:
        return process
    log = os.open(folder / f"rank{environment.get('RANK', rank)}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "FIRSTFAULT_BACKEND": "gloo", "FIRSTFAULT_TIMEOUT": str(TIMEOUT_S)})
    os.environ.update({"GLOO_SOCKET_IFNAME": "lo", **environment})
    sys.argv = [str(ALL_REDUCE)]
    status = 1
    try:
        exec(code, {})
        runpy.run_path(str(ALL_REDUCE), run_name="__main__")
        status = 0
    except BaseException:  # noqa: BLE001 - the edge of a process: print what Python would have printed
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Run the jobs, all at once, and wait for them with a deadline."""
    import torch.distributed  # noqa: F401, PLC0415 - before the forks

    root = Path(sys.argv[1])
    with ExitStack() as stack:
        table = jobs(stack)
        wanted = sys.argv[2:] or list(table)
        running: set[int] = set()
        for name in wanted:
            (root / name).mkdir(parents=True, exist_ok=True)
            for rank, (environment, code) in enumerate(table[name]):
                running.add(start(root / name, rank, environment, code))
        deadline = time.monotonic() + 60
        while running and time.monotonic() < deadline:
            ended, _ = os.waitpid(-1, os.WNOHANG)
            running.discard(ended)
            if not ended:
                time.sleep(0.05)
        for process in running:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


if __name__ == "__main__":
    main()
