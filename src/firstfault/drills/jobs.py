"""How the ranks of a job are started: command line and environment for each node."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from firstfault.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from firstfault.drills.scenario import Workload
    from firstfault.drills.topology import Topology

__all__ = [
    "TORCH_PROGRAMS",
    "Backend",
    "Launcher",
    "Process",
    "base_environment",
    "bundled_programs",
    "bundled_script",
    "choose_backend",
    "processes",
    "program_command",
    "require_torch",
]

Backend = Literal["gloo", "nccl"]
Launcher = Literal["direct", "torchrun"]
# The bundled programs that use PyTorch; the others start without it.
TORCH_PROGRAMS = frozenset({"all_reduce", "training"})
_PROGRAMS = Path(__file__).parent / "programs"
# What a shell may carry over from another job, and what would make a drill's result depend on it.
_FOREIGN = re.compile(
    r"(NCCL|GLOO|TORCH|TORCHELASTIC|PET|FI|UCX|OMPI|SLURM|PMI)_|"
    r"(MASTER_ADDR|MASTER_PORT|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|NODE_RANK|OMP_NUM_THREADS)$"
)
# What the machine's owner may have set because its hardware or its sandbox needs it.
_MACHINE = {"NCCL_NVLS_ENABLE", "TORCH_SYMM_MEM_DISABLE_MULTICAST"}
# Waiting for the program as a child lets the shell say which signal ended it.
_SHELL = '"$@"; code=$?; exit $code'


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One process to start: a rank, or with a launcher the agent of a node.

    Attributes:
        rank: Global rank; with a launcher the first rank of the node.
        node: Node that it runs on.
        host: Host name of the node.
        log: Name of its log file.
    """

    rank: int
    node: str
    host: str
    argv: list[str]
    env: dict[str, str]
    log: str


def require_torch() -> None:
    """Refuse when PyTorch is not installed beside this program.

    Raises:
        UnsupportedError: It is not.
    """
    if importlib.util.find_spec("torch") is None:
        raise UnsupportedError(
            f"the drilled program needs PyTorch, and {sys.executable} has none",
            "pip install 'firstfault[drill]' (about 200 MB with a CPU build of torch, about 3 GB with CUDA)",
        )


@cache
def choose_backend(wanted: Literal["auto", "gloo", "nccl"]) -> Backend:
    """Return the backend: what was asked for, or nccl where PyTorch sees a GPU.

    Raises:
        UnsupportedError: nccl was asked for, and PyTorch sees no GPU.
    """
    if wanted == "gloo":
        return "gloo"
    # Asking PyTorch costs seconds; without a device node there is nothing to ask.
    usable = Path("/dev/nvidiactl").exists() and _torch_sees_gpu()
    if wanted == "nccl" and not usable:
        raise UnsupportedError("the nccl backend was asked for, and PyTorch sees no GPU here", "use --backend gloo")
    return "nccl" if usable else "gloo"


def _torch_sees_gpu() -> bool:
    question = (
        "import torch, torch.distributed as dist; "
        "raise SystemExit(not (torch.cuda.is_available() and dist.is_nccl_available()))"
    )
    return subprocess.run([sys.executable, "-c", question], check=False, capture_output=True).returncode == 0


def bundled_programs() -> set[str]:
    """Return the names of the programs that ship with the package."""
    return {path.stem for path in _PROGRAMS.glob("*.py")} - {"__init__"}


def program_command(workload: Workload, base: Path) -> list[str]:
    """Return the command line of the program: Python for .py files, else the file itself."""
    bundled = workload.program in bundled_programs()
    path = _PROGRAMS / f"{workload.program}.py" if bundled else (base / workload.program).resolve()
    if not path.is_file():
        raise InputError(f"{path}: no such program", "give the path of a file, or the name of a bundled program")
    if path.suffix != ".py" and os.access(path, os.X_OK):
        return [str(path), *workload.args]
    return [sys.executable, "-u", str(path), *workload.args]


def bundled_script(argv: list[str]) -> int:
    """Return the place of the script in a command line when it is a bundled program run by this Python, else 0."""
    words = [sys.executable, "-u"]
    bundled = argv[: len(words)] == words and len(argv) > len(words) and Path(argv[len(words)]).parent == _PROGRAMS
    return len(words) if bundled else 0


def base_environment(topology: Topology, temporary: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what every process of a job gets: the user's environment without other jobs', the cluster's, and ours."""
    inherited = {name: value for name, value in environ.items() if name in _MACHINE or not _FOREIGN.match(name)}
    own = {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", "TMPDIR": str(temporary)}
    return {**inherited, **topology.env, **own}


def processes(
    workload: Workload,
    topology: Topology,
    *,
    backend: Backend,
    launcher: Launcher,
    timeout: float,
    base: Path,
    temporary: Path,
    environ: Mapping[str, str] = os.environ,
) -> list[Process]:
    """Return what to start on which node.

    Args:
        workload: The job.
        topology: Where its nodes are.
        backend: Backend of the process group.
        launcher: direct: one process per rank, as a Pod would run it · torchrun: one agent per node.
        timeout: Process-group timeout in seconds; with torchrun also that of the agents' rendezvous.
        base: Folder that a relative program path starts from.
        temporary: Folder for temporary files that ends with the world.
        environ: Environment to start from; what belongs to other jobs is left out.

    Raises:
        InputError: The program does not exist, or a rank's node does not.
    """
    command = program_command(workload, base)
    if workload.entrypoint == "shell" and launcher == "direct":
        command = [_shell(), "-c", _SHELL, "entrypoint", *command]
    master, port = workload.master
    common = {
        **base_environment(topology, temporary, environ),
        **workload.env,
        "MASTER_ADDR": workload.env.get("MASTER_ADDR", master),
        "MASTER_PORT": workload.env.get("MASTER_PORT", str(port)),
        "FIRSTFAULT_BACKEND": backend,
        "FIRSTFAULT_TIMEOUT": f"{timeout:g}",
    }
    hosts: dict[str, list[int]] = {}
    for rank, node in enumerate(workload.ranks):
        hosts.setdefault(topology.node(node).name, []).append(rank)
    found = []
    for index, (node, ranks) in enumerate(hosts.items()):
        host = topology.node(node).hostname
        here = {key: value.replace("{host}", host) for key, value in common.items()}
        if launcher == "torchrun":
            argv = _torchrun(command, common, nodes=len(hosts), index=index, ranks=len(ranks), timeout=timeout)
            if set(ranks) <= set(workload.missing):
                continue
            env = {**here, **workload.rank_env.get(ranks[0], {})}
            for name in workload.rank_unset.get(ranks[0], []):
                env.pop(name, None)
            log = f"rank-{ranks[0]}.{host}.log"
            found.append(Process(rank=ranks[0], node=node, host=host, argv=argv, env=env, log=log))
            continue
        for local, rank in enumerate(ranks):
            if rank in workload.missing:
                continue
            env = {
                **here,
                "RANK": str(rank),
                "WORLD_SIZE": str(len(workload.ranks)),
                "LOCAL_RANK": str(local),
                "LOCAL_WORLD_SIZE": str(len(ranks)),
                **workload.rank_env.get(rank, {}),
            }
            for name in workload.rank_unset.get(rank, []):
                env.pop(name, None)
            log = f"rank-{rank}.{host}.log"
            found.append(Process(rank=rank, node=node, host=host, argv=command, env=env, log=log))
    return found


def _shell() -> str:
    return shutil.which("bash") or "/bin/sh"


def _torchrun(
    command: list[str], env: Mapping[str, str], *, nodes: int, index: int, ranks: int, timeout: float
) -> list[str]:
    seconds = max(1, round(timeout))
    launcher = [
        *(sys.executable, "-u", "-m", "torch.distributed.run"),
        *(f"--nnodes={nodes}", f"--nproc-per-node={ranks}", f"--node-rank={index}"),
        *("--rdzv-backend=c10d", f"--rdzv-endpoint={env['MASTER_ADDR']}:{env['MASTER_PORT']}", "--rdzv-id=drill"),
        f"--rdzv-conf=read_timeout={seconds},join_timeout={seconds},is_host={int(index == 0)}",
    ]
    if command[:2] == [sys.executable, "-u"]:
        return [*launcher, *command[2:]]
    return [*launcher, "--no-python", *command]
