"""Adds a number across all ranks, five times: the smallest program that needs everything a training job needs.

Every rank starts with its rank plus one; with two ranks the first all_reduce gives 3 and each further one doubles it.
Reads MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE as every torch.distributed program does, and for the drill
FIRSTFAULT_BACKEND ("gloo" or "nccl") and FIRSTFAULT_TIMEOUT (seconds for the process group).
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import socket
import time

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser(description="all_reduce across all ranks")
parser.add_argument("--iterations", type=int, default=5)
parser.add_argument("--elements", type=int, default=1)
parser.add_argument("--pause", type=float, default=0.0, help="seconds between iterations")
options = parser.parse_args()

backend = os.environ.get("FIRSTFAULT_BACKEND", "nccl" if torch.cuda.is_available() else "gloo")
timeout = dt.timedelta(seconds=float(os.environ.get("FIRSTFAULT_TIMEOUT", "120")))
rank, world_size = os.environ["RANK"], os.environ["WORLD_SIZE"]
master = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
print(f"[init] host={socket.gethostname()} rank={rank} ws={world_size} master={master}", flush=True)
# A program that says under which settings it runs lets its logs be understood without the manifest.
settings = " ".join(
    f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(("NCCL_", "GLOO_"))
)
print(f"[env] backend={backend} {settings}", flush=True)

device = torch.device("cpu")
if backend == "nccl":
    # Where all nodes are one machine, ranks of different nodes share its GPUs.
    local = rank if os.environ.get("FIRSTFAULT_ONE_MACHINE") else os.environ.get("LOCAL_RANK", "0")
    device = torch.device("cuda", int(local) % torch.cuda.device_count())
    torch.cuda.set_device(device)
dist.init_process_group(backend=backend, timeout=timeout)

value = torch.full((options.elements,), float(dist.get_rank() + 1), device=device)
for iteration in range(options.iterations):
    dist.all_reduce(value)
    print(f"[rank {dist.get_rank()}] iter {iteration} sum-first={value[0].item()}", flush=True)
    time.sleep(options.pause)
dist.destroy_process_group()
