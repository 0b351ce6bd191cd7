"""On Auto Mode the driver, the toolkit and the device plugin belong to the platform."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.gpu_operator import GpuOperator, gpu_operators
from firstfault.checks.helm import helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.karpenter import AUTO_MODE_GROUP
from firstfault.checks.located import Unresolved, dig
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.terraform.eks import eks_modules

_PLATFORM = ("driver", "toolkit", "devicePlugin")
_OPT_OUT = "nvidia.com/gpu.deploy.operands"
_COMPUTE_TYPE = "eks.amazonaws.com/compute-type"


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge operators and device plugins, where the inputs use Auto Mode."""
    if not _auto_mode(inventory) or _all_opted_out(inventory):
        return
    for operator in gpu_operators(inventory):
        yield _judge(operator)
    for release in helm_releases(inventory, "nvidia-device-plugin"):
        if _COMPUTE_TYPE in str(release.values.get("affinity", "")):
            yield passed(release.place, release.subject)
        else:
            yield failed(release.place, release.subject, "this device plugin also lands on Auto Mode nodes")


def _auto_mode(inventory: Inventory) -> bool:
    for eks in eks_modules(inventory):
        if dig(eks.get("compute_config", "cluster_compute_config"), "enabled") is True:
            return True
    if any(block.get("compute_config", 0, "enabled") is True for block in inventory.resources("aws_eks_cluster")):
        return True
    return bool(_pools(inventory))


def _pools(inventory: Inventory) -> list[dict[str, object]]:
    """Return the templates of the NodePools whose class is Auto Mode's."""
    return [
        item.spec["template"]
        for item in inventory.objects("NodePool", "karpenter.sh")
        if item.get("spec", "template", "spec", "nodeClassRef", "group") == AUTO_MODE_GROUP
    ]


def _all_opted_out(inventory: Inventory) -> bool:
    pools = _pools(inventory)
    return bool(pools) and all(str(dig(pool, "metadata", "labels", _OPT_OUT)) == "false" for pool in pools)


def _judge(operator: GpuOperator) -> Outcome:
    active = []
    for component in _PLATFORM:
        enabled = operator.enabled(component)
        if isinstance(enabled, Unresolved):
            return unresolved(operator.place(component), operator.subject, f"{component}.enabled", enabled)
        if enabled:
            active.append(component)
    if active:
        return failed(
            operator.place(active[0]),
            operator.subject,
            f"{', '.join(active)} {'is' if len(active) == 1 else 'are'} on (the default), and Auto Mode brings its own",
        )
    return passed(operator.place("driver"), operator.subject)
