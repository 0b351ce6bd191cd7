"""Variables that keep NCCL off the EFA interfaces that its Pod asks for."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import ABSENT, Unresolved
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import container_env


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every container that asks for EFA."""
    for pod in inventory.gpu_pods:
        for container in pod.containers:
            if not container.efa:
                continue
            values = {
                name: container_env(inventory, container, name)
                for name in ("NCCL_NET", "NCCL_NET_PLUGIN", "FI_PROVIDER")
            }
            forced = [
                f"{name}={value}"
                for name, value in values.items()
                if value is not ABSENT and not isinstance(value, Unresolved) and _is_socket(name, str(value))
            ]
            place = container.place("env")
            if forced:
                yield failed(place, container.subject, f"{', '.join(forced)} keeps NCCL off EFA")
            else:
                yield passed(place, container.subject)


def _is_socket(name: str, value: str) -> bool:
    lowered = value.lower()
    if name == "NCCL_NET":
        return lowered == "socket"
    if name == "NCCL_NET_PLUGIN":
        return lowered in {"", "none"}
    return "efa" not in lowered and not lowered.startswith("^tcp")
