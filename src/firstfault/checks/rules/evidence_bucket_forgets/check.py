"""Lifecycle and force_destroy of the buckets that keep evidence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from firstfault.checks.edits import SetArgument
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved, dig
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.terraform.model import TerraformBlock
from firstfault.checks.terraform.values import as_number

_EVIDENCE = re.compile(r"evidence|forensic|postmortem|crash-?dump|dcgm", re.IGNORECASE)
_DAYS = 30


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every bucket whose name says that it keeps evidence."""
    for bucket in inventory.resources("aws_s3_bucket"):
        name = bucket.get("bucket")
        if _EVIDENCE.search(f"{bucket.name} {name if isinstance(name, str) else ''}"):
            yield _judge(inventory, bucket)


def _judge(inventory: Inventory, bucket: TerraformBlock) -> Outcome:
    if bucket.get("force_destroy") is True:
        place = bucket.place("force_destroy")
        edit = SetArgument(path=place.path, line=place.line, name="force_destroy", value="false")
        return failed(place, bucket.address, "force_destroy lets Terraform empty the bucket", edits=[edit])
    for block in inventory.resources("aws_s3_bucket_lifecycle_configuration"):
        target = block.get("bucket")
        if target == bucket.get("bucket") or (isinstance(target, Unresolved) and target.ref.startswith(bucket.address)):
            rules = block.get("rule")
            for index, rule in enumerate(rules if isinstance(rules, list) else []):
                days = as_number(_days(rule))
                if rule.get("status") == "Enabled" and not isinstance(days, Unresolved) and days < _DAYS:
                    return failed(block.place("rule", index), bucket.address, f"evidence is deleted after {days} days")
    return passed(bucket.place(), bucket.address)


def _days(rule: dict[str, Any]) -> Any:
    prefix = dig(rule, "filter", 0, "prefix")
    if isinstance(prefix, str) and prefix and not _EVIDENCE.search(prefix):
        return None  # about something else in the bucket
    return dig(rule, "expiration", 0, "days")
