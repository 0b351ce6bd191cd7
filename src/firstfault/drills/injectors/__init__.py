"""What can be broken. One class per kind; a scenario's `injections` name them by `kind`.

To add one: write the class in a module here (`describe`, `prepare`, `inject`, `undo`), add it to `INJECTORS`, and
write a scenario that uses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

from firstfault.drills.injectors.base import Injector, Start
from firstfault.drills.injectors.cloud import Ec2Rules, NetworkPolicy, TerraformVariables
from firstfault.drills.injectors.filesystem import SmallFileSystem
from firstfault.drills.injectors.job import EnvironmentChange, HeldPort, MissingRank
from firstfault.drills.injectors.kernel_log import KernelLogLine
from firstfault.drills.injectors.names import DnsAnswer
from firstfault.drills.injectors.packets import DelayedFrames, DropPackets, LimitedRate, PulledCable
from firstfault.drills.injectors.process import AddressSpaceLimit, SignalRank
from firstfault.drills.injectors.security_groups import SecurityGroupRules, SecurityGroupToggles

__all__ = [
    "CLUSTER_INJECTORS",
    "INJECTORS",
    "AnyInjector",
    "Ec2Rules",
    "Injector",
    "NetworkPolicy",
    "SecurityGroupToggles",
    "Start",
    "TerraformVariables",
    "undo_record",
]

INJECTORS: tuple[type[Injector], ...] = (
    SecurityGroupToggles,
    SecurityGroupRules,
    DropPackets,
    PulledCable,
    EnvironmentChange,
    MissingRank,
    HeldPort,
    SignalRank,
    AddressSpaceLimit,
    SmallFileSystem,
    DnsAnswer,
    LimitedRate,
    DelayedFrames,
    KernelLogLine,
)

# What toggles become on a cluster; scenario files do not name these.
CLUSTER_INJECTORS: tuple[type[Injector], ...] = (TerraformVariables, Ec2Rules, NetworkPolicy)


if TYPE_CHECKING:
    AnyInjector = Injector
else:
    AnyInjector = Union[INJECTORS]  # noqa: UP007 - what msgspec decodes an entry of `injections` into, by its `kind`


def undo_record(kind: str, world: Any, record: dict[str, Any]) -> None:
    """Take back what an injection of that kind did, from its record alone. Harmless when it is taken back already."""
    by_kind = {str(injector.__struct_config__.tag): injector for injector in (*INJECTORS, *CLUSTER_INJECTORS)}
    by_kind[kind].undo(world, record)
