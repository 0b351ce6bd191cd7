"""Runs the rungs that need the backend, in a process of its own: `python -m firstfault.smoke.collective`.

NCCL cannot be interrupted while it initialises, so the parent gives each rung its time and ends this process when one
takes longer. Progress goes to the file descriptor FIRSTFAULT_SMOKE_FD, one JSON line per rung; what the backend says
goes to standard output and error, where triage reads it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from firstfault.parent import die_with_parent

__all__ = ["main"]

_BYTES = {"nccl": 256 << 20, "gloo": 16 << 20}
_ROUNDS = 5


def main() -> None:
    """Climb store, init, collective and bandwidth, and say so as each is done."""
    with contextlib.suppress(OSError, AttributeError):  # not Linux: the parent ends this process where it can
        die_with_parent(signal.SIGKILL)
    with os.fdopen(int(os.environ["FIRSTFAULT_SMOKE_FD"]), "w", buffering=1) as progress:

        def say(**fields: object) -> None:
            progress.write(json.dumps(fields) + "\n")

        _climb(say)


def _climb(say: Callable[..., None]) -> None:
    import torch  # noqa: PLC0415
    from torch import distributed  # noqa: PLC0415

    dist: Any = distributed  # its stubs leave out TCPStore

    backend = os.environ["FIRSTFAULT_SMOKE_BACKEND"]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    limit = dt.timedelta(seconds=float(os.environ["FIRSTFAULT_SMOKE_TIMEOUT"]))
    say(event="imported")
    device = torch.device("cpu")
    if backend == "nccl":
        # Says in PyTorch's own words when this build or this machine has no CUDA.
        torch.cuda.init()  # type: ignore[no-untyped-call]
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % max(1, torch.cuda.device_count()))
        torch.cuda.set_device(device)
    store = dist.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        size,
        is_master=rank == 0,
        timeout=dt.timedelta(seconds=float(os.environ["FIRSTFAULT_SMOKE_STORE_TIMEOUT"])),
    )
    say(event="store")
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=limit)
    # Communicators are made by the first collective: only after it is the backend known to be up.
    value = torch.full((1,), float(rank + 1), device=device)
    dist.all_reduce(value)
    say(event="init")
    got, wanted = value.item(), size * (size + 1) / 2
    say(event="collective", correct=got == wanted, got=got, wanted=wanted)
    say(event="bandwidth", bus=_bandwidth(torch, dist, device, backend, size))
    dist.barrier()
    dist.destroy_process_group()


def _bandwidth(torch: Any, dist: Any, device: Any, backend: str, size: int) -> float:
    """Return the bus bandwidth of all_reduce in bytes per second: nccl-tests' formula, doc/PERFORMANCE.md there."""
    data = torch.ones(_BYTES[backend] // 4, device=device)
    dist.all_reduce(data)

    def settle() -> None:
        if backend == "nccl":
            torch.cuda.synchronize()

    settle()
    started = time.perf_counter()
    for _ in range(_ROUNDS):
        dist.all_reduce(data)
    settle()
    seconds = (time.perf_counter() - started) / _ROUNDS
    return float(data.numel() * 4 / seconds * 2 * (size - 1) / size)


if __name__ == "__main__":
    main()
