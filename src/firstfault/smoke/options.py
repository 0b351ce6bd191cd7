"""What a smoke run is told: who it is, whom it meets, and how long each rung may take."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

import msgspec

from firstfault.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Limits", "Options", "from_environment"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that each rung may take. A silent drop costs `tcp`, not the job's ten minutes.

    Attributes:
        wait: How long peers that have not started yet are waited for; it does not delay a finding that needs no peer.
        name: Name resolution.
        tcp: One connection attempt.
        store: Joining the c10d store.
        init: Communicator initialisation, which imports and starts CUDA as well.
        collective: One correct all_reduce.
        bandwidth: The measurement.
    """

    wait: float = 60
    name: float = 3
    tcp: float = 2
    store: float = 5
    init: float = 60
    collective: float = 20
    bandwidth: float = 60


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's smoke run.

    Attributes:
        master: Name and port of the meeting place, as MASTER_ADDR and MASTER_PORT.
        backend: Backend of the process group.
        preflight: Stop after the TCP and store rungs where no GPU is visible (an init container).
        min_bandwidth: Floor in bytes per second; None: that of the instance type, if known.
        expect: Transport that NCCL must choose between nodes: "efa", "ib", "socket", "any"; None: by instance type.
        instance_type: EC2 instance type, for floor and expectation; "": not known.
    """

    rank: int
    world_size: int
    master: tuple[str, int]
    local_rank: int = 0
    backend: Literal["nccl", "gloo"] = "gloo"
    preflight: bool = False
    min_bandwidth: float | None = None
    expect: Literal["efa", "ib", "socket", "any"] | None = None
    instance_type: str = ""
    limits: Limits = Limits()


_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_PORTS = 65535
_MOST_RANKS = 1_000_000


def from_environment(environ: Mapping[str, str] = os.environ) -> tuple[int, int, tuple[str, int], int]:
    """Return rank, world size, master and local rank as torch.distributed's environment names them.

    An Indexed Job gives JOB_COMPLETION_INDEX instead of RANK.

    Raises:
        UsageError: A variable is missing or is no number; the message says which.
    """
    values = {"RANK": environ.get("JOB_COMPLETION_INDEX", ""), "MASTER_PORT": "29500"}
    values |= {name: environ[name] for name in (*_NEEDED, "LOCAL_RANK") if environ.get(name)}
    if missing := [name for name in _NEEDED if not values.get(name)]:
        raise UsageError(
            f"the environment does not say {', '.join(missing)}",
            "set what torch.distributed needs (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), or give --rank, "
            "--world-size and --master HOST:PORT",
        )
    rank, size, port, local = (
        _number(name, values.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT", "LOCAL_RANK")
    )
    if size > _MOST_RANKS:
        raise UsageError(f"WORLD_SIZE {size} is no number of ranks", f"the most that this counts is {_MOST_RANKS:,}")
    if not 0 <= rank < size:
        raise UsageError(f"RANK {rank} does not fit WORLD_SIZE {size}", "ranks count from 0 to the world size minus 1")
    if not 1 <= port <= _PORTS:
        raise UsageError(f"MASTER_PORT {port} is no port", f"give one from 1 to {_PORTS}, such as 29500")
    return rank, size, (values["MASTER_ADDR"], port), local


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UsageError(
            f"{name}={value}: not a whole number",
            "look at what sets it for the job, or give --rank, --world-size and --master HOST:PORT",
        ) from None
