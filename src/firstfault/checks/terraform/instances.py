"""What audit needs to know of EC2 instance types: which have GPUs, how many vCPUs, which quota counts them."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["GPU_QUOTAS", "has_gpu", "quota_code", "supports_efa", "vcpus"]

_GPU_FAMILY = re.compile(r"(?:gr?\d\w*|p\d[\w-]*)\.")
_SIZE = re.compile(r"(\d*)xlarge(?:\.\w+)?$")
_METAL = {"g4dn.metal": 96, "g5g.metal": 64}
_EFA = re.compile(
    r"(?:p3dn|p4de?|p5(?!\.4xlarge)\w*|p6[\w-]*)\.\w+|(?:g4dn|g5|g6|g6e|gr6)\.(?:8|12|16|24|48)xlarge|g4dn\.metal"
)

# Service Quotas codes; all of them count vCPUs of running instances, per region.
GPU_QUOTAS: Final = {
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-417A185B": "Running On-Demand P instances",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",
    "L-C4BD4855": "All P5 Spot Instance Requests",
}


def has_gpu(instance_type: str) -> bool:
    """Tell whether an instance type has GPUs (G, GR and P families)."""
    return _GPU_FAMILY.match(instance_type) is not None


def vcpus(instance_type: str) -> int | None:
    """Return the vCPUs of a GPU instance type, or None when its size says nothing.

    Sizes of these families are multiples of xlarge with four vCPUs each.
    """
    if instance_type in _METAL:
        return _METAL[instance_type]
    match = _SIZE.search(instance_type)
    return 4 * int(match[1] or 1) if match else None


def quota_code(instance_type: str, *, spot: bool) -> str:
    """Return the code of the vCPU quota that counts an instance type. Spot has quotas of its own."""
    if instance_type.startswith("g"):
        return "L-3819A6DF" if spot else "L-DB2E81BA"
    if not spot:
        return "L-417A185B"
    return "L-C4BD4855" if instance_type.startswith("p5") else "L-7212CCBC"


def supports_efa(instance_type: str) -> bool:
    """Tell whether an instance type has an Elastic Fabric Adapter."""
    return _EFA.fullmatch(instance_type) is not None
