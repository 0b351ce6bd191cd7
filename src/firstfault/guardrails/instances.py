"""Facts about GPU instance types: which have EFA, and how many interfaces."""

from __future__ import annotations

import re

__all__ = ["EFA_INTERFACES", "GPU_TYPES", "efa_interfaces", "family", "has_efa"]

# Network interfaces that can be EFA, per instance type. Source: "Elastic Fabric Adapter for AI/ML and HPC workloads"
# and "Maximize network bandwidth" in the EC2 user guide. A type that is not here has none as far as we know.
EFA_INTERFACES: dict[str, int] = {
    "g4dn.8xlarge": 1,
    "g4dn.12xlarge": 1,
    "g4dn.16xlarge": 1,
    "g4dn.metal": 1,
    "g5.8xlarge": 1,
    "g5.12xlarge": 1,
    "g5.16xlarge": 1,
    "g5.24xlarge": 1,
    "g5.48xlarge": 1,
    "g6.8xlarge": 1,
    "g6.12xlarge": 1,
    "g6.16xlarge": 1,
    "g6.24xlarge": 1,
    "g6.48xlarge": 1,
    "g6e.8xlarge": 1,
    "g6e.12xlarge": 1,
    "g6e.16xlarge": 1,
    "g6e.24xlarge": 2,
    "g6e.48xlarge": 4,
    "gr6.8xlarge": 1,
    "p3dn.24xlarge": 1,
    "p4d.24xlarge": 4,
    "p4de.24xlarge": 4,
    "p5.4xlarge": 1,
    "p5.48xlarge": 32,
    "p5e.48xlarge": 32,
    "p5en.48xlarge": 16,
    "p6-b200.48xlarge": 8,
    "p6-b300.48xlarge": 16,
    "p6e-gb200.36xlarge": 17,
}


_WITHOUT_EFA = {
    "g4ad": "xlarge 2xlarge 4xlarge 8xlarge 16xlarge",
    "g4dn": "xlarge 2xlarge 4xlarge",
    "g5": "xlarge 2xlarge 4xlarge",
    "g5g": "xlarge 2xlarge 4xlarge 8xlarge 16xlarge metal",
    "g6": "xlarge 2xlarge 4xlarge",
    "g6e": "xlarge 2xlarge 4xlarge",
    "g6f": "large xlarge 2xlarge 4xlarge",
    "gr6": "4xlarge",
    "gr6f": "4xlarge",
    "p2": "xlarge 8xlarge 16xlarge",
    "p3": "2xlarge 8xlarge 16xlarge",
}
GPU_TYPES = frozenset(
    {*EFA_INTERFACES, *(f"{name}.{size}" for name, sizes in _WITHOUT_EFA.items() for size in sizes.split())}
)
"""GPU instance types of EC2 that are known here. Source: "Amazon EC2 accelerated computing instances"."""


def efa_interfaces(instance_type: str) -> int:
    """Return how many interfaces of an instance type can be EFA; 0 when none or not known."""
    return EFA_INTERFACES.get(instance_type, 0)


def has_efa(instance_type: str) -> bool:
    """Whether an instance type has EFA."""
    return efa_interfaces(instance_type) > 0


def family(instance_type: str) -> str:
    """Return the family of an instance type: "p5" of "p5.48xlarge", "p6-b200" of "p6-b200.48xlarge"."""
    return re.split(r"\.", instance_type, maxsplit=1)[0]
