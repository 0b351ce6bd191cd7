"""A small training loop that can go wrong in the ways that real ones do, where FIRSTFAULT_DO says so.

Every step loads a batch, computes, adds the gradients of all ranks and now and then writes a checkpoint. Reads what
every torch.distributed program reads, and FIRSTFAULT_BACKEND and FIRSTFAULT_TIMEOUT. FIRSTFAULT_DO is `WHAT@STEP`; the
functions below `FAULTS` are what it may be. The faults are real: memory is really asked for, workers really die.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import socket
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser(description="a training loop")
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--elements", type=int, default=1024)
parser.add_argument("--pause", type=float, default=0.15, help="seconds of computing per step")
parser.add_argument("--workers", type=int, default=0, help="data-loader workers; 0: no data loader")
parser.add_argument("--batch-bytes", type=int, default=1 << 16)
parser.add_argument("--checkpoint-bytes", type=int, default=0, help="size of the checkpoint after the third step")
options = parser.parse_args()


class Samples(torch.utils.data.Dataset[torch.Tensor]):
    """Random bytes; each batch goes through shared memory."""

    def __len__(self) -> int:
        """Give enough for all steps."""
        return int(options.steps)

    def __getitem__(self, index: int) -> torch.Tensor:
        """Make one batch, or die where that was asked for."""
        if fault == f"kill-worker@{index}":
            os.kill(os.getpid(), 9)
        return torch.zeros(options.batch_bytes, dtype=torch.uint8)


def raise_error() -> None:
    """A bug of the program."""
    labels = torch.zeros(12)
    torch.zeros(16).add_(labels)


def cuda_oom() -> None:
    """Ask the GPU for more than it has."""
    torch.empty(torch.cuda.get_device_properties(device).total_memory * 2, dtype=torch.uint8, device=device)


def host_memory() -> None:
    """Ask for memory piece by piece, and use it."""
    hoard = []
    while True:
        hoard.append(torch.ones(64 << 20, dtype=torch.uint8))


def slow() -> None:
    """Compute far longer than the others wait."""
    time.sleep(600)


def other_operation() -> None:
    """Call another collective than the other ranks do."""
    dist.all_gather([torch.empty_like(gradient) for _ in range(dist.get_world_size())], gradient)


def other_size() -> None:
    """Give more elements than the other ranks do."""
    dist.all_reduce(torch.ones(2 * options.elements, device=device))


FAULTS = {
    "raise": raise_error,
    "cuda-oom": cuda_oom,
    "host-memory": host_memory,
    "slow": slow,
    "collective-type": other_operation,
    "collective-size": other_size,
}

fault = os.environ.get("FIRSTFAULT_DO", "")
backend = os.environ.get("FIRSTFAULT_BACKEND", "nccl" if torch.cuda.is_available() else "gloo")
timeout = dt.timedelta(seconds=float(os.environ.get("FIRSTFAULT_TIMEOUT", "120")))
rank, world_size = os.environ["RANK"], os.environ["WORLD_SIZE"]
master = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
print(f"[init] host={socket.gethostname()} rank={rank} ws={world_size} master={master}", flush=True)
settings = " ".join(
    f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(("NCCL_", "GLOO_"))
)
print(f"[env] backend={backend} {settings}", flush=True)

device = torch.device("cpu")
if backend == "nccl":
    local = rank if os.environ.get("FIRSTFAULT_ONE_MACHINE") else os.environ.get("LOCAL_RANK", "0")
    device = torch.device("cuda", int(local) % torch.cuda.device_count())
    torch.cuda.set_device(device)
dist.init_process_group(backend=backend, timeout=timeout)

loader = None
if options.workers:
    loader = iter(torch.utils.data.DataLoader(Samples(), batch_size=1, num_workers=options.workers))
# What a step usually takes, where the job's owner knows it from runs that were well (its objective).
usual = float(os.environ.get("FIRSTFAULT_USUAL_STEP_S", "0"))
seconds: list[float] = []
communication: list[float] = []
for step in range(options.steps):
    began = time.monotonic()
    if loader is not None:
        next(loader)
    gradient = torch.full((options.elements,), float(dist.get_rank() + 1), device=device)
    time.sleep(options.pause)
    what, _, when = fault.partition("@")
    if what in FAULTS and int(when) == step:
        FAULTS[what]()
        if what.startswith("collective"):
            continue
    called = time.monotonic()
    dist.all_reduce(gradient)
    total = gradient[0].item()
    communication.append(time.monotonic() - called)
    seconds.append(time.monotonic() - began)
    print(f"[rank {dist.get_rank()}] iter {step} sum-first={total} seconds={seconds[-1]:.3f}", flush=True)
    if options.checkpoint_bytes and step == 2:
        target = Path(tempfile.gettempdir()) / f"checkpoint-{rank}.pt"
        torch.save({"weights": torch.zeros(options.checkpoint_bytes, dtype=torch.uint8)}, target)
        target.unlink()
mean, waited = sum(seconds) / len(seconds), sum(communication) / len(communication)
if usual and mean > 2 * usual:
    print(
        f"[rank {rank}] iteration time {mean:.3f} s is {mean / usual:.1f}x slower than usual ({usual:.3f} s); "
        f"{waited:.3f} s of it in communication",
        flush=True,
    )
dist.destroy_process_group()
