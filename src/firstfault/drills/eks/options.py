"""What a caller says about the cluster; it is journaled, so that `recover` finds the same cluster again."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.collect.names import check_namespace

__all__ = ["EksOptions"]


class EksOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, the target and the limits of one drill.

    Attributes:
        injector: terraform: flip variables and apply · ec2: revoke and authorize exactly the recorded rules ·
            networkpolicy: deny the Pods' traffic by a NetworkPolicy.
        terraform_dir: Folder of the root module, initialised.
        var_files: Variable files that the owner plans with, relative to `terraform_dir`.
        groups: Security-group id by the name that the topology gives the group ("node", "aux"); what is not given is
            taken from the outputs `<name>_security_group_id` of the root module.
        namespace: Where the Pods run; it must exist.
        context: kubeconfig context.
        region: AWS region.
        image: Image with PyTorch.
        gpus: GPUs that each Pod asks for; 0 for a drill without GPUs (gloo).
        node_selector: Labels of the nodes that the Pods may run on.
        accept: Namespaces whose Pods may be cut as well, named by somebody who knows them.
        max_duration_s: Seconds after which the watchdog takes the fault back, whatever happens.

    Raises:
        UsageError: No cluster has a namespace of that name.
    """

    injector: Literal["terraform", "ec2", "networkpolicy"] = "terraform"
    terraform_dir: str = ""
    var_files: list[str] = []
    groups: dict[str, str] = {}
    namespace: str = "default"
    context: str | None = None
    region: str | None = None
    image: str = "nvcr.io/nvidia/pytorch:24.10-py3"
    gpus: int = 1
    node_selector: dict[str, str] = msgspec.field(default_factory=lambda: {"nvidia.com/gpu.present": "true"})
    accept: list[str] = []
    max_duration_s: float = 0

    def __post_init__(self) -> None:
        check_namespace(self.namespace, "--namespace")
