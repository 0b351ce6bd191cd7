"""What no single line says: facts that only comparing ranks, or noticing what is missing, brings out.

Each rule looks at the facts and returns observations of its own, which cite the line they rest on and compete with the
lines of the cards on equal terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from firstfault.model import Observation, Role

if TYPE_CHECKING:
    from firstfault.diagnosis.facts import Facts

__all__ = ["derive"]


def derive(facts: Facts) -> list[Observation]:
    """Run every rule."""
    return [item for rule in _RULES for item in rule(facts)]


def _derived(line: Observation, cause: str, rule: str, strength: float, **fields: str) -> Observation:
    return msgspec.structs.replace(
        line,
        signature=f"{cause}/derived-{rule}",
        cause=cause,
        role=Role.ROOT,
        strength=strength,
        fields={**line.fields, **fields},
    )


def _stuck_in_init(facts: Facts) -> list[Observation]:
    """Init START without COMPLETE: stuck in the bootstrap ring, or waiting for somebody who is."""
    complete = {(item.source, item.fields["comm"]) for item in facts.signals.get("nccl.init-complete", ())}
    stuck = [
        item
        for item in facts.signals.get("nccl.init-start", ())
        if (item.source, item.fields["comm"]) not in complete and "parent" not in item.text
    ]
    if not stuck:
        return []
    retries = facts.signals.get("net.connect-retry", [])
    cause = "network.nccl.bootstrap-unreachable"
    if retries:
        return [_derived(retries[0], cause, "connect-retries-before-init-complete", 0.75)]
    return [_derived(stuck[0], cause, "init-start-without-complete", 0.4)]


def _never_arrived(facts: Facts) -> list[Observation]:
    """Ranks whose last enqueued work is behind that of their peers never came to the collective."""
    last: dict[int, tuple[int, Observation]] = {}
    for item in facts.signals.get("watchdog.status", ()):
        if item.rank is not None:
            enqueued = int(item.fields["enqueued"])
            if item.rank not in last or enqueued > last[item.rank][0]:
                last[item.rank] = (enqueued, item)
    if len(last) < 2:
        return []
    highest = max(enqueued for enqueued, _ in last.values())
    behind = sorted(rank for rank, (enqueued, _) in last.items() if enqueued < highest)
    if not behind or len(behind) == len(last):
        return []
    line = last[behind[0]][1]
    return [_derived(line, "workload.collective.straggler", "behind", 0.7, behind=",".join(map(str, behind)))]


def _cut_after_init(facts: Facts) -> list[Observation]:
    """All ranks entered the same collective over the network and none left it: the data path, not a rank."""
    timeouts = [item for item in facts.signals.get("watchdog.timeout", ()) if item.rank is not None]
    by_rank = {item.rank: item.fields["seq"] for item in timeouts}
    status = [item for item in facts.signals.get("watchdog.status", ()) if item.rank is not None]
    counts = {(item.fields["enqueued"], item.fields["completed"]) for item in status}
    over_network = facts.has("transport.channel-net") or any(
        int(item.fields["nodes"]) > 1 for item in facts.signals.get("nccl.nodes", ())
    )
    world = facts.world_size
    everyone = len(by_rank) >= 2 and (world is None or len(by_rank) == world)
    if not timeouts or not everyone or not over_network or len(set(by_rank.values())) > 1 or len(counts) > 1:
        return []
    return [_derived(timeouts[0], "network.nccl.transport-unreachable", "all-ranks-wait-in-one-collective", 0.6)]


_SAME_SIZE_EVERYWHERE = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "ALLGATHER", "_ALLGATHER_BASE"})


def _mismatch(facts: Facts) -> list[Observation]:
    """Two ranks time out at the same number in different operations, or in one whose sizes must agree and do not."""
    operations: dict[str, dict[str, Observation]] = {}
    for item in facts.signals.get("watchdog.timeout", ()):
        operation = item.fields["op"]
        if operation in _SAME_SIZE_EVERYWHERE and item.fields.get("numel"):
            operation += f" of {item.fields['numel']} elements"
        operations.setdefault(item.fields["seq"], {}).setdefault(operation, item)
    for by_operation in operations.values():
        if len(by_operation) > 1:
            line = next(iter(by_operation.values()))
            return [
                _derived(
                    line,
                    "workload.collective.mismatch",
                    "different-operations",
                    0.8,
                    ops=", ".join(sorted(by_operation)),
                )
            ]
    return []


def _missing_ranks(facts: Facts) -> list[Observation]:
    """Fewer clients than the world has: someone never came, or could not."""
    for item in (*facts.signals.get("store.clients", ()), *facts.signals.get("store.barrier-wait", ())):
        if int(item.fields["joined"]) < int(item.fields["world"]):
            return [_derived(item, "network.c10d.missing-ranks", "fewer-clients-than-ranks", 0.55)]
    return []


def _timed_out(facts: Facts) -> list[Observation]:
    """A collective timed out: true whenever the watchdog says so, and the least that can be said."""
    found = facts.signals.get("watchdog.timeout", ())
    return [_derived(found[0], "workload.collective.timeout", "watchdog", 0.4)] if found else []


_RULES = (_stuck_in_init, _never_arrived, _cut_after_init, _mismatch, _missing_ranks, _timed_out)
