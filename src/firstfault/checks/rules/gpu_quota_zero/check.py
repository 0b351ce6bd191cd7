"""The quota that counts a group's instances, in its region, must not be 0."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.quotas import Demand, Quota, demands, quotas, regions_of


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every GPU group, when the inputs hold a snapshot of quotas."""
    known = quotas(inventory)
    for demand in demands(inventory) if known else []:
        matching = [quota for quota in known if quota.code == demand.code]
        regions = regions_of(demand.group)
        here = [quota for quota in matching if not quota.region or regions is None or quota.region in regions]
        if here:
            yield _judge(demand, here[0])
        elif matching:
            where = matching[0].region
            yield unknown(
                matching[0].place,
                demand.group.subject,
                f"the snapshot is of {where}, the nodes are in {', '.join(sorted(regions or ()))}",
            )


def _judge(demand: Demand, quota: Quota) -> Outcome:
    place = demand.group.place("instance_types")
    if quota.value > 0:
        return passed(place, demand.group.subject)
    return failed(place, demand.group.subject, f"{quota.name} ({quota.code}) is 0 vCPUs; one node needs {demand.each}")
