"""Takes back what an interrupted run on a cluster owes, from its journal alone."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.drills.eks.options import EksOptions
from firstfault.drills.eks.world import Eks
from firstfault.drills.injectors import undo_record
from firstfault.drills.journal import read_events
from firstfault.drills.topology import Topology
from firstfault.errors import FirstFaultError

if TYPE_CHECKING:
    from firstfault.drills.journal import Journal, Undo

__all__ = ["recover_cluster"]


def recover_cluster(identity: dict[str, Any], undo: list[Undo], journal: Journal) -> list[str]:
    """Undo every recorded injection, newest first, and delete what the run created.

    Returns:
        What is still owed, one sentence each; empty when the rules equal the baseline's again.
    """
    options = msgspec.convert(identity["options"], EksOptions)
    if identity.get("groups"):
        options = msgspec.structs.replace(options, groups=identity["groups"])
    owed: list[str] = []
    try:
        world = Eks(msgspec.convert(identity["topology"], Topology), options, journal=journal)
    except FirstFaultError as error:
        return [f"the cluster cannot be reached: {error}"]
    with world:
        for each in reversed(undo):
            try:
                undo_record(each.kind, world, each.record)
            except FirstFaultError as error:
                owed.append(f"{each.kind}: {error}")
        try:
            owed += world.close()
            if not owed and undo and (before := _baseline(journal)) and world.snapshot().digest != before:
                owed.append("the rules differ from the baseline's; see the journal for both")
        except FirstFaultError as error:
            owed.append(str(error))
    # Plans of the killed process; undoing has waited for a terraform that might still have used them.
    shutil.rmtree(journal.folder / "private", ignore_errors=True)
    return owed


def _baseline(journal: Journal) -> str | None:
    for event in read_events(journal.folder):
        if event.get("event") == "phase-ended" and event.get("phase", {}).get("name") == "baseline":
            digest: str | None = event.get("digest")
            return digest
    return None
