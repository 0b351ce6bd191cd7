"""Headroom for one more node, unless old nodes go before new ones come."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.quotas import Demand, Quota, demands, quotas, regions_of
from firstfault.checks.terraform.eks import NodeGroup, is_set


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every managed GPU group."""
    known = quotas(inventory)
    every = demands(inventory)
    for demand in every:
        group = demand.group
        if group.kind == "self":
            continue
        if _old_first(group):
            if known or _reserved(group):
                yield passed(group.place("update_config"), group.subject)
        elif _reserved(group):
            place = group.place("capacity_reservation_specification")
            yield failed(place, group.subject, "the group runs in a reservation, and the update starts new nodes first")
        else:
            yield from _against_quota(demand, every, known)


def _old_first(group: NodeGroup) -> bool:
    return "MINIMAL" in {
        group.get("update_config", "update_strategy"),
        group.get("update_config", 0, "update_strategy"),
    }


def _reserved(group: NodeGroup) -> bool:
    target = group.get("capacity_reservation_specification", "capacity_reservation_target")
    return is_set(target) or group.get("capacity_type") == "CAPACITY_BLOCK"


def _against_quota(demand: Demand, every: list[Demand], known: list[Quota]) -> Iterator[Outcome]:
    group = demand.group
    place = group.place("desired_size")
    for quota in known:
        regions = regions_of(group) or {quota.region}
        if quota.code != demand.code or (quota.region and quota.region not in regions) or quota.value == 0:
            continue
        if demand.unknown:
            yield unknown(place, group.subject, f"the size of the group cannot be told: {demand.unknown}")
            continue
        running = sum(item.desired for item in every if item.code == quota.code)
        if running + demand.each > quota.value:
            yield failed(
                place,
                group.subject,
                f"{running} of {quota.value:.0f} vCPUs run; a replacement needs {demand.each} more ({quota.name})",
            )
        else:
            yield passed(place, group.subject)
