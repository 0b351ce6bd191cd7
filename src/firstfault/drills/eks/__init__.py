"""The EKS world: the same phases on a real cluster, with Terraform, EC2 and the Kubernetes API."""

from __future__ import annotations

from firstfault.drills.eks.options import EksOptions

__all__ = ["EksOptions"]
