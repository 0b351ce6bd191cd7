"""What several lines about nodes and the GPU stack say together, and none of them alone.

Rules in the sense of `derive`: they look at the facts and return observations that cite the line they rest on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from firstfault.catalogue.xid import load_xid_table
from firstfault.diagnosis.derived import derived
from firstfault.model import Observation, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.diagnosis.facts import Facts

__all__ = ["STACK_RULES"]

# A machine that was launched registers within a few minutes (Karpenter itself gives up after 15), seconds.
LAUNCH_BUDGET_S = 300

# What an own driver, toolkit or plugin prints where the platform does not let it work.
_OWN_STACK = {
    "driver.operator.driver-failed",
    "driver.module.load-failed",
    "driver.runtime.missing",
    "driver.toolkit.hook-failed",
    "driver.plugin.crash",
    "driver.plugin.not-registered",
}


def _roots(facts: Facts, *causes: str) -> list[Observation]:
    return [item for item in facts.faults if item.cause in causes and item.role is Role.ROOT]


def _platform_owns_the_stack(facts: Facts) -> list[Observation]:
    """On nodes of EKS Auto Mode the platform brings driver and plugin; one's own cannot work there."""
    automatic = [item for item in facts.faults if item.signature == "infra.automode.driver-conflict/node-auto"]
    own = _roots(facts, *_OWN_STACK)
    installed = facts.first("stack.own-daemonset")
    if not automatic or not (own or installed):
        return []
    if installed and not own:
        return [derived(installed, "infra.automode.driver-conflict", "own-stack-installed", 0.6)]
    return [derived(own[0], "infra.automode.driver-conflict", "own-stack-on-managed-node", 0.9)]


def _what_nodes_offer(facts: Facts) -> list[Observation]:
    """A Pod lacks a GPU: do the nodes in the same input have some (then all are taken) or none at all?"""
    waiting = [
        item for item in _roots(facts, "infra.gpu.exhausted", "infra.node.no-gpu") if "Insufficient" in item.text
    ]
    if not waiting or _roots(facts, "driver.plugin.allocatable-zero"):
        return []
    if facts.has("health.allocatable"):
        return [derived(waiting[0], "infra.gpu.exhausted", "nodes-offer-gpus", 0.75)]
    if facts.has("node.offers-none") or (facts.has("node.capacity") and not facts.has("health.describe-allocatable")):
        return [derived(waiting[0], "infra.node.no-gpu", "no-node-offers-one", 0.75)]
    if facts.has("scheduler.selector-mismatch"):
        # Some nodes are not wanted, the wanted ones are full: whoever selects GPU nodes finds them taken.
        return [derived(waiting[0], "infra.gpu.exhausted", "selected-nodes-are-full", 0.62)]
    return []


def _launched_and_never_registered(facts: Facts) -> list[Observation]:
    """Karpenter launched a machine, its Pods wait on much later, and no line says that the node registered.

    The line about the launch alone is ordinary: excerpts of a working provisioner end with it, too.
    """
    if facts.has("provisioner.registered", "health.nodeclaim-initialized"):
        return []
    waits = facts.signals.get("provisioner.pods-wait", ())
    for launch in facts.signals.get("provisioner.launched", ()):
        later = [
            wait
            for wait in waits
            if wait.source == launch.source
            and wait.clock == launch.clock
            and wait.time is not None
            and launch.time is not None
            and wait.time - launch.time > LAUNCH_BUDGET_S
        ]
        if later:
            return [derived(launch, "infra.node.join-failed", "launched-and-never-registered", 0.45)]
    return []


def _limits_of_a_pool_without_types(facts: Facts) -> list[Observation]:
    """Karpenter before 0.37 says that a pool's limits are exceeded when it could not resolve its instance types."""
    cause = "infra.karpenter.incompatible/instance-types-unresolved"
    if not any(item.signature == cause for item in facts.faults):
        return []
    return [
        msgspec.structs.replace(item, role=Role.EXONERATING, strength=0.95)
        for item in _roots(facts, "infra.nodepool.limits")
    ]


def _driver_container_failed(facts: Facts) -> list[Observation]:
    """A module that does not load inside the operator's driver container: the operator could not install the driver."""
    if not facts.has("driver.container"):
        return []
    roots = _roots(facts, "driver.module.load-failed", "driver.version.mismatch", "driver.nouveau.loaded")
    if not roots:
        return []
    strongest = max(item.strength for item in roots)
    return [derived(roots[0], "driver.operator.driver-failed", "in-driver-container", min(0.9, strongest + 0.04))]


def _disk_size_ignored(facts: Facts) -> list[Observation]:
    """The node has far less disk than was configured: the launch template won."""
    for asked in facts.signals.get("disk.configured", ()):
        for got in facts.signals.get("disk.capacity", ()):
            if int(got.fields["kib"]) * 1024 < 0.6 * int(asked.fields["gb"]) * 1e9:
                return [derived(got, "infra.launchtemplate.disk-ignored", "less-than-configured", 0.8)]
    return []


def _mesh_between_ranks(facts: Facts) -> list[Observation]:
    """NCCL starts and never gets ready, or an init container has no network yet, in a Pod with a mesh sidecar."""
    sidecar = facts.first("mesh.sidecar")
    cut_off = [item for item in _roots(facts, "infra.apiserver.unreachable") if "connection refused" in item.text]
    if sidecar is not None and cut_off:
        # The mesh redirects all traffic from its init container on; its proxy starts after the other init containers.
        return [derived(cut_off[0], "network.mesh.sidecar", "no-network-before-the-proxy", 0.6)]
    progress = facts.has("nccl.init-complete", "job.step", "job.sum", "job.finished", "nccl.destroyed")
    if sidecar is None or progress or not facts.has("nccl.speaks"):
        return []
    return [derived(sidecar, "network.mesh.sidecar", "sidecar-and-no-communicator", 0.5)]


def _unlisted_xid(facts: Facts) -> list[Observation]:
    """An XID of a driver that is newer than the table: the code itself is all there is to say."""
    for item in facts.signals.get("xid.any", ()):
        code = int(item.fields["xid"])
        table = load_xid_table()  # only where there is an XID: it takes longer than all the rest
        if code not in table.codes and code not in table.named:
            return [derived(item, f"driver.xid.{code}", "unlisted", 0.55)]
    return []


def _fewer_than_it_has(facts: Facts) -> list[Observation]:
    """A node offers fewer GPUs than it has: the device plugin holds some for unhealthy."""
    for item in facts.signals.get("node.offer", ()):
        if int(item.fields["offered"]) < int(item.fields["has"]):
            return [derived(item, "driver.plugin.allocatable-zero", "fewer-than-it-has", 0.6)]
    return []


def _two_driver_versions(facts: Facts) -> list[Observation]:
    """The loaded module and the installed libraries, shown side by side, are of different versions."""
    loaded = {item.fields["version"] for item in facts.signals.get("driver.loaded-version", ())}
    installed = facts.signals.get("driver.installed-version", ())
    if len(loaded) != 1 or not installed:
        return []
    module = next(iter(loaded)).split(".")
    same = [all(a == b for a, b in zip(item.fields["version"].split("."), module, strict=False)) for item in installed]
    return [] if any(same) else [derived(installed[0], "driver.version.mismatch", "side-by-side", 0.6)]


STACK_RULES: tuple[Callable[[Facts], list[Observation]], ...] = (
    _platform_owns_the_stack,
    _what_nodes_offer,
    _limits_of_a_pool_without_types,
    _launched_and_never_registered,
    _driver_container_failed,
    _disk_size_ignored,
    _mesh_between_ranks,
    _unlisted_xid,
    _two_driver_versions,
    _fewer_than_it_has,
)
