"""Sum over the groups of max size times vCPUs, against the quota that counts them."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.quotas import demands, quotas, regions_of


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every quota of a snapshot that counts GPU groups of the inputs."""
    every = demands(inventory)
    for quota in quotas(inventory):
        mine = [
            demand
            for demand in every
            if demand.code == quota.code
            and (not quota.region or quota.region in (regions_of(demand.group) or {quota.region}))
        ]
        if not mine or quota.value == 0:
            continue
        place, subject = mine[0].group.place("max_size"), f"{mine[0].group.block.address}#{quota.code}"
        missing = next((demand.unknown for demand in mine if demand.unknown), "")
        total = sum(demand.most for demand in mine)
        if missing:
            yield unknown(place, subject, f"the largest size cannot be told: {missing}")
        elif total > quota.value:
            parts = ", ".join(f"{demand.group.name} {demand.most}" for demand in mine)
            yield failed(
                place,
                subject,
                f"at their largest the groups need {total} vCPUs ({parts}); {quota.name} is {quota.value:.0f}",
            )
        else:
            yield passed(place, subject)
