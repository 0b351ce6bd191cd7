"""What a healthy node should reach: the transport and the least bus bandwidth by EC2 instance type.

Floors are a third of the instance's published network bandwidth in bytes per second: below that something is wrong, and
above it nobody is woken. Bandwidths: "Amazon EC2 instance types", accelerated computing, network specifications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from firstfault.smoke.options import Options

__all__ = ["EFA_TYPES", "NETWORK_GBIT", "bandwidth_floor", "expected_transport", "transport_matches"]

NETWORK_GBIT: dict[str, float] = {
    "g4dn.12xlarge": 50,
    "g4dn.metal": 100,
    "g5.12xlarge": 40,
    "g5.24xlarge": 50,
    "g5.48xlarge": 100,
    "g6.12xlarge": 40,
    "g6.24xlarge": 50,
    "g6.48xlarge": 100,
    "g6e.12xlarge": 100,
    "g6e.24xlarge": 200,
    "g6e.48xlarge": 400,
    "p3dn.24xlarge": 100,
    "p4d.24xlarge": 400,
    "p4de.24xlarge": 400,
    "p5.48xlarge": 3200,
    "p5e.48xlarge": 3200,
    "p5en.48xlarge": 3200,
}
"""Published network bandwidth in Gbit/s, types with a sustained figure only ("up to" types have no floor)."""

EFA_TYPES = ("p3dn.", "p4d.", "p4de.", "p5.", "p5e.", "p5en.", "p6-")
"""Families on which jobs that span nodes are expected to use EFA."""

_SHARE = 1 / 3


def bandwidth_floor(options: Options) -> float | None:
    """Return the least bus bandwidth in bytes per second, or None when no floor is known."""
    if options.min_bandwidth is not None:
        return options.min_bandwidth
    gbit = NETWORK_GBIT.get(options.instance_type)
    return None if gbit is None or options.backend != "nccl" else gbit * 1e9 / 8 * _SHARE


def expected_transport(options: Options) -> Literal["efa", "ib", "socket", "any"] | None:
    """Return the transport that NCCL should choose between nodes, or None when nothing says so."""
    if options.expect is not None:
        return options.expect
    return "efa" if options.instance_type.startswith(EFA_TYPES) else None


def transport_matches(expected: str, chosen: str) -> bool:
    """Whether the transports that triage read from NCCL's log contain the expected one."""
    words = {"efa": "EFA", "ib": "IB/RDMA", "socket": "TCP socket"}
    return words[expected] in chosen
