"""XID policy: what several kernel lines together mean. Pure functions over observations.

The codes and the policy themselves are in catalogue/xid.yaml.

A single pattern cannot say that channel removal (45) follows from another XID, that a program's own error explains its
page fault (31) although the kernel's clock is ahead, or that a later 162 takes a 163 back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from firstfault.catalogue.xid import XidTable, load_xid_table
from firstfault.model import Observation, Role

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["RecoveryAction", "recovery_action", "settle_xids"]

_RECOVERY = re.compile(r"recovery action changed from \S+ \([^)]*\) to (0x[0-9a-fA-F]+) \(([^)]*)\)")
# Newer drivers end a line of any code with the one that it follows from.
_PREVIOUS = re.compile(r"\): (\d+),.* caused by previous Xid (\d+)")
_APPLICATION_ERRORS = ("workload.cuda.illegal-access", "workload.cuda.device-assert")
_MEMORY_ERRORS = {48, 64, 94, 95, 140, 171, 172}
# Numbers of nvmlDeviceGpuRecoveryAction_t; the label of the line wins, since newer drivers name the same number anew.
_BY_NUMBER = {0: "none", 1: "reset", 2: "reboot", 3: "drain-p2p", 4: "drain-and-reset"}
_BY_LABEL = (
    ("drain and reset", "drain-and-reset"),
    ("drain p2p", "drain-p2p"),
    ("reboot", "reboot"),
    ("reset", "reset"),
    ("flr", "reset"),
    ("none", "none"),
)


class RecoveryAction(msgspec.Struct, frozen=True):
    """What XID 154 asks for.

    Attributes:
        action: none, reset, reboot, drain-p2p, drain-and-reset, or unknown.
        number: The number that the line gives.
        label: The words that the line gives, as printed.
    """

    action: str
    number: int
    label: str


def recovery_action(text: str) -> RecoveryAction | None:
    """Read the recovery action that a line of XID 154 asks for; None when the line is another one."""
    match = _RECOVERY.search(text)
    if match is None:
        return None
    number, label = int(match[1], 16), match[2]
    for words, action in _BY_LABEL:
        if words in label.lower():
            return RecoveryAction(action, number, label)
    return RecoveryAction(_BY_NUMBER.get(number, "unknown"), number, label)


def settle_xids(observations: Iterable[Observation], table: XidTable | None = None) -> list[Observation]:
    """Give XID lines the role that they have beside the other observations.

    Args:
        observations: All observations of one input, in order.
        table: Codes and policy; the one that ships with the package if None.

    Returns:
        The same observations in the same order, aftermath demoted to consequences and cancelled ones left out.
    """
    items = list(observations)
    codes = [_code(item) for item in items]
    if not any(code is not None for code in codes):
        return items
    table = table or load_xid_table()
    seen = {code for code, item in zip(codes, items, strict=True) if code is not None and item.role is Role.ROOT}
    program = any(item.cause in _APPLICATION_ERRORS and item.role is Role.ROOT for item in items)
    blamed, cancelled = _places(items, codes, table)
    settled = []
    for place, (item, code) in enumerate(zip(items, codes, strict=True)):
        if code is None or item.role is not Role.ROOT:
            settled.append(item)
        elif cancelled.get((*_gpu(item), code), -1) <= place:
            follows = _follows(item, code, seen, table, program=program)
            follows = follows or (code in table.policy.stalls and blamed.get(_gpu(item), place) < place)
            settled.append(msgspec.structs.replace(item, role=Role.CONSEQUENCE) if follows else item)
    return settled


def _code(item: Observation) -> int | None:
    """The code that a line is about: as captured, else (node agents, exporters) as its card is named."""
    value = item.fields.get("xid", "") or item.cause.removeprefix("driver.xid.")
    return int(value) if value.isdigit() and "SXid" not in item.text else None


def _follows(item: Observation, code: int, seen: set[int], table: XidTable, *, program: bool) -> bool:
    policy = table.policy
    previous = _PREVIOUS.search(item.text)
    if previous and int(previous[1]) == code != int(previous[2]):
        return True
    if code in policy.aftermath:
        return bool(seen - {*policy.aftermath, *policy.informational})
    if code in policy.application_first:
        return program
    if code in policy.informational:
        causes = _MEMORY_ERRORS if code in (63, 156) else seen - {*policy.aftermath, *policy.informational}
        return bool(causes & seen)
    return False


def _gpu(item: Observation) -> tuple[str, str | None]:
    return item.source, item.fields.get("pci")


def _places(
    items: list[Observation], codes: list[int | None], table: XidTable
) -> tuple[dict[tuple[str, str | None], int], dict[tuple[str, str | None, int], int]]:
    """Find in one pass what a storm of lines would otherwise be searched for again and again.

    Returns:
        By GPU, the place of the first line that blames the program; by GPU and code, that of the last which cancels it.
    """
    blamed: dict[tuple[str, str | None], int] = {}
    cancelled: dict[tuple[str, str | None, int], int] = {}
    for place, (item, code) in enumerate(zip(items, codes, strict=True)):
        if code is None:
            continue
        if code in table.policy.application_first:
            blamed.setdefault(_gpu(item), place)
        if (taken_back := table.policy.cancels.get(code)) is not None:
            cancelled[(*_gpu(item), taken_back)] = place
    return blamed, cancelled
