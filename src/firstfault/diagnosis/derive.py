"""What no single line says: facts that only comparing ranks, or noticing what is missing, brings out.

Each rule looks at the facts and returns observations of its own, which cite the line they rest on and compete with the
lines of the cards on equal terms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from firstfault.diagnosis.derived import derived
from firstfault.diagnosis.interfaces import INTERFACE_RULES, unfinished_inits
from firstfault.diagnosis.raised import RAISED_RULES
from firstfault.diagnosis.stack import STACK_RULES
from firstfault.diagnosis.watching import WATCHING_RULES
from firstfault.model import Observation, Role
from firstfault.model.ranks import rank_text

if TYPE_CHECKING:
    from firstfault.diagnosis.facts import Facts, Writer

__all__ = ["derive"]

# Operations, and ranks of each, that a sentence names.
MOST_OPERATIONS = 4
LONGEST_RANKS = 60


def derive(facts: Facts) -> list[Observation]:
    """Run every rule."""
    rules = (*_RULES, *INTERFACE_RULES, *RAISED_RULES, *STACK_RULES, *WATCHING_RULES)
    return [item for rule in rules for item in rule(facts)]


def _stuck_in_init(facts: Facts) -> list[Observation]:
    """Init START without COMPLETE: stuck in the bootstrap ring, or waiting for somebody who is.

    Who printed what comes behind the ring (topology, trees, channels) is past it: its log may just be cut.
    """
    stuck = unfinished_inits(facts)
    if not stuck:
        return []
    retries = facts.signals.get("net.connect-retry", [])
    cause = "network.nccl.bootstrap-unreachable"
    if retries:
        return [derived(retries[0], cause, "connect-retries-before-init-complete", 0.75)]
    past = {item.source for item in facts.signals.get("nccl.bootstrapped", ())}
    stuck = [item for item in stuck if item.source not in past]
    if not stuck:
        return []
    return [derived(stuck[0], cause, "init-start-without-complete", 0.4)]


def _slow_bootstrap(facts: Facts) -> list[Observation]:
    """All ranks had checked in, yet handing their addresses around took tens of seconds, and no step came after.

    A rank that starts late is waited for before that ("recv"). What the ring sends is a hundred bytes for each rank:
    on a sound network it takes milliseconds, with thousands of ranks a few seconds.
    """
    slow = facts.signals.get("nccl.bootstrap-slow")
    if not slow or facts.has("job.step", "job.sum", "job.finished", "vllm.serving"):
        return []
    return [derived(slow[0], "network.link.degraded", "slow-bootstrap", 0.45)]


def _never_arrived(facts: Facts) -> list[Observation]:
    """Ranks whose last enqueued work is behind that of their peers in one group never came to the collective."""
    for last in _last_enqueued(facts).values():
        highest = max(enqueued for enqueued, _ in last.values())
        # The host runs ahead of the GPU: whoever enqueued the work that hangs has arrived, however far others ran on.
        done = [int(line.fields["completed"]) for _, line in last.values()]
        needed = max(done) + 1 if min(done) >= 0 else highest
        behind = sorted(rank for rank, (enqueued, _) in last.items() if enqueued < needed)
        if behind and len(behind) < len(last):
            line = last[behind[0]][1]
            names = ",".join(map(str, behind))
            return [derived(line, "workload.collective.straggler", "behind", 0.7, behind=names)]
    return []


def _last_enqueued(facts: Facts) -> dict[str, dict[int, tuple[int, Observation]]]:
    """Process group → rank → (number of its last enqueued work, the line that says so)."""
    groups: dict[str, dict[int, tuple[int, Observation]]] = {}
    for item in facts.signals.get("watchdog.status", ()):
        if item.rank is not None:
            last = groups.setdefault(item.fields.get("pg", ""), {})
            enqueued = int(item.fields["enqueued"])
            if item.rank not in last or enqueued > last[item.rank][0]:
                last[item.rank] = (enqueued, item)
    return groups


def _came_late(facts: Facts) -> list[Observation]:
    """Some ranks timed out in a collective that another one, which complains of nothing, went through later."""
    timeouts = [item for item in facts.signals.get("watchdog.timeout", ()) if item.rank is not None]
    waiting = {item.rank for item in timeouts}
    late = [
        one
        for one in facts.ranks
        if one.rank not in waiting and not one.faults and {"job.finished", "nccl.destroyed"} & set(one.signals)
    ]
    if not timeouts or not late or len(late) > len(waiting):
        return []
    names = ",".join(str(one.rank) for one in late)
    return [derived(timeouts[0], "workload.collective.straggler", "finished-without-peers", 0.6, late=names)]


def _cut_after_init(facts: Facts) -> list[Observation]:
    """All ranks entered the same collective over the network and none left it: the data path, not a rank."""
    timeouts = [item for item in facts.signals.get("watchdog.timeout", ()) if item.rank is not None]
    by_rank = {item.rank: (item.fields["seq"], item.fields["op"]) for item in timeouts}
    status = [item for item in facts.signals.get("watchdog.status", ()) if item.rank is not None]
    counts = {(item.fields["enqueued"], item.fields["completed"]) for item in status}
    over_network = facts.has("transport.channel-net") or any(
        int(item.fields["nodes"]) > 1 for item in facts.signals.get("nccl.nodes", ())
    )
    world = facts.world_size
    everyone = len(by_rank) >= 2 and (world is None or len(by_rank) == world)
    if not timeouts or not everyone or not over_network or len(set(by_rank.values())) > 1 or len(counts) > 1:
        return []
    return [derived(timeouts[0], "network.nccl.transport-unreachable", "all-ranks-wait-in-one-collective", 0.6)]


def _gloo_waits(facts: Facts) -> list[Observation]:
    """Who waits in gloo: all ranks, then what they wait for was lost on the way; some, then the others never came.

    A rank that died closes its connections, and its peers say so instead of running into their timeout.
    """
    recv = "network.gloo.transport-lost/recv-timed-out"
    waits = {item.rank: item for item in facts.faults if item.signature == recv and item.rank is not None}
    world = facts.world_size
    if not waits or world is None or not 2 <= len(facts.ranks) == world:
        return []
    line = next(iter(waits.values()))
    stuck = {
        *waits,
        *(item.rank for item in facts.faults if item.signature == "network.gloo.transport-lost/pair-closed"),
    }
    calls = {
        item.rank: item.fields["op"]
        for item in facts.signals.get("python.collective", ())
        if item.rank in stuck and item.rank is not None
    }
    if len(calls) == world and len(set(calls.values())) > 1:
        names = _who_calls_what(calls)
        return [derived(line, "workload.collective.mismatch", "different-calls", 0.65, ops=names)]
    if len(waits) == world:
        return [derived(line, "network.gloo.transport-lost", "all-ranks-wait", 0.6)]
    others = [one for one in facts.ranks if one.rank not in waits]
    if any(one.first("job.finished") or (_complains(one) and not _lost_its_agent(one, facts)) for one in others):
        return []
    names = ",".join(str(one.rank) for one in others)
    found = [derived(line, "workload.collective.straggler", "peer-silent-but-connected", 0.55, silent=names)]
    if any(one.faults for one in others) and facts.has("job.step", "job.sum"):
        # The agent's words for a store that it lost are also those for one that it never reached; the job was at work.
        reached = derived(line, "network.c10d.unreachable", "job-was-at-work", 0.5)
        found.append(msgspec.structs.replace(reached, role=Role.EXONERATING))
    return found


def _complains(writer: Writer) -> bool:
    return bool(writer.faults) or writer.complains


def _lost_its_agent(writer: Writer, facts: Facts) -> bool:
    """Whether a participant says only that its agent lost the store: it outlived the agent that served it."""
    return bool(writer.faults) and all(
        item.cause == "network.c10d.store-lost" or facts.stop_of(item) == "agent-rendezvous" for item in writer.faults
    )


_SAME_SIZE_EVERYWHERE = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "ALLGATHER", "_ALLGATHER_BASE"})


def _mismatch(facts: Facts) -> list[Observation]:
    """Ranks of one group wait in different operations, or in one whose sizes must agree and do not.

    The program then called different collectives on them. Ranks of different groups do so by design: their lines are
    compared only where the group is the same, or where no line tells groups and the numbers are the same.
    """
    group_of = {item.rank: item.fields.get("pg", "") for item in facts.signals.get("watchdog.status", ())}
    waits: dict[str, dict[int, Observation]] = {}
    for item in facts.signals.get("watchdog.timeout", ()):
        if item.rank is not None:
            waits.setdefault(group_of.get(item.rank, ""), {})[item.rank] = item
    for group, by_rank in waits.items():
        numbers = {item.fields["seq"] for item in by_rank.values()}
        operations = {rank: _operation(item) for rank, item in by_rank.items()}
        if len(set(operations.values())) > 1 and (len(numbers) == 1 or group):
            strength = 0.8 if len(numbers) == 1 else 0.72
            names = _who_calls_what(operations)
            lines = {operations[rank]: item for rank, item in reversed(by_rank.items())}
            return [
                derived(line, "workload.collective.mismatch", "different-operations", strength, ops=names)
                for line in list(lines.values())[:MOST_OPERATIONS]
            ]
    return []


def _who_calls_what(operations: dict[int, str]) -> str:
    """Operations and who is in them, the fewest ranks first: they are the ones to look at."""
    ranks: dict[str, list[int]] = {}
    for rank, operation in operations.items():
        ranks.setdefault(operation, []).append(rank)
    found = sorted(ranks.items(), key=lambda item: (len(item[1]), item[0]))
    said = [f"{operation} ({_few(who)})" for operation, who in found[:MOST_OPERATIONS]]
    return ", ".join(said) + (f" and {len(found) - len(said)} others" if len(found) > len(said) else "")


def _few(ranks: list[int]) -> str:
    """Ranks in words, and how many there are where that would be long."""
    text = rank_text(ranks).replace(",", ", ")
    if len(text) > LONGEST_RANKS:
        return f"{len(ranks)} ranks: {text[:LONGEST_RANKS].rpartition(',')[0]} …"
    return f"rank{'s' if len(ranks) > 1 else ''} {text}"


def _operation(item: Observation) -> str:
    operation = item.fields["op"]
    if operation in _SAME_SIZE_EVERYWHERE and item.fields.get("numel"):
        return f"{operation} of {item.fields['numel']} elements"
    return operation


def _missing_ranks(facts: Facts) -> list[Observation]:
    """Fewer clients than the world has: someone never came, or could not."""
    for item in (*facts.signals.get("store.clients", ()), *facts.signals.get("store.barrier-wait", ())):
        if int(item.fields["joined"]) < int(item.fields["world"]):
            return [derived(item, "network.c10d.missing-ranks", "fewer-clients-than-ranks", 0.55)]
    return []


def _refused_by_retry(facts: Facts) -> list[Observation]:
    """The store's client gave up before its time and tried again: something answered each attempt, with a refusal.

    Where packets are dropped, the first attempt uses up all of the time. With a timeout longer than the kernel's own
    (`store.syn-timeout`, a line for each attempt of its) the client tries again as well, which then proves nothing
    (measured: torch 2.13.0, 120 s).
    """
    if facts.has("store.no-name", "store.syn-timeout"):
        return []
    retries = facts.signals.get("store.retry", [])
    return [derived(retries[0], "network.c10d.refused", "second-try", 0.5)] if retries else []


def _went_silent(facts: Facts) -> list[Observation]:
    """One rank's log just ends while its peers complain: it was killed, or it is stuck where it prints nothing.

    A living rank answers its peers' time-out (its own watchdog, a dump signal). The kernel closes the sockets of a dead
    one, and NCCL warns of that; a stopped one leaves its peers waiting without a word (both measured: NCCL 2.28.9).
    """
    ranks = facts.ranks
    complaint = facts.first("peer.closed") or facts.first("watchdog.timeout")
    if complaint is None or not 2 <= len(ranks) == facts.world_size:
        return []
    spoke = {"peer.closed", "watchdog.timeout", "watchdog.status", "python.traceback", "job.finished", "nccl.destroyed"}
    silent = [one for one in ranks if not one.faults and not spoke & set(one.signals) and not one.complains]
    if not silent or len(silent) > len(ranks) // 2:
        return []
    names = ",".join(str(one.rank) for one in silent)
    if facts.has("peer.closed"):
        return [derived(complaint, "workload.signal.killed", "log-just-ends", 0.55, silent=names)]
    if facts.has("nccl.speaks"):
        return [derived(complaint, "workload.collective.straggler", "silent-and-not-gone", 0.5, silent=names)]
    return [
        derived(complaint, "workload.signal.killed", "log-just-ends", 0.45, silent=names),
        derived(complaint, "workload.collective.straggler", "log-just-ends", 0.35, silent=names),
    ]


def _hangs_over_p2p(facts: Facts) -> list[Observation]:
    """All ranks are ready on one node, channels go via P2P, the GPUs spin, and nothing is ever done."""
    line = facts.first("transport.channel-p2p")
    ready = facts.has("nccl.init-complete") and not facts.has("transport.channel-net")
    progress = facts.has("job.step", "job.sum", "job.finished", "nccl.destroyed", "vllm.serving")
    if line is None or not ready or progress or not facts.has("gpu.busy"):
        return []
    return [derived(line, "network.nccl.p2p-broken", "busy-without-progress", 0.45)]


def _gpu_not_requested(facts: Facts) -> list[Observation]:
    """The program sees no GPU, and the Pod never asked for one."""
    if not facts.has("pod.limits") or facts.has("pod.gpus"):
        return []
    cause = "workload.gpu.not-requested"
    blind = [
        item for item in facts.faults if item.cause in {cause, "driver.gpu.not-visible"} and item.role is Role.ROOT
    ]
    return [derived(blind[0], cause, "no-gpu-in-limits", 0.8)] if blind else []


def _efa_not_used(facts: Facts) -> list[Observation]:
    """The environment or the Pod asks for EFA, and NCCL says that it uses sockets."""
    socket = [item for item in facts.signals.get("transport.network", ()) if item.fields.get("network") == "Socket"]
    if not socket or not facts.has("env.efa-wanted"):
        return []
    return [derived(socket[0], "network.efa.silent-fallback", "efa-wanted-sockets-used", 0.75)]


def _traceback_cut_short(facts: Facts) -> list[Observation]:
    """A traceback without the line that names its exception, and nothing else: the program raised something.

    The paste may lack its first line too; frames are left then.
    """
    if any(item.role is Role.ROOT for item in facts.faults):
        return []
    found = []
    lines = facts.signals.get("python.traceback") or facts.signals.get("python.frame") or []
    for item in lines:
        later = [
            line
            for name in ("job.step", "job.sum", "job.finished", "vllm.serving")
            for line in facts.signals.get(name, ())
            if line.source == item.source and (line.order or 0) > (item.order or 0)
        ]
        if not later:
            found.append(derived(item, "workload.rank.exception", "traceback-cut-short", 0.22))
    return found[:1]


_STATED_PREEMPTION = {
    "workload.signal.preempted/slurm-cancelled",
    "workload.signal.preempted/kubernetes-preempted",
}
_JUST_BEFORE = 60


def _preempted_as_stated(facts: Facts) -> list[Observation]:
    """The scheduler itself says that it preempted the job: exceptions about that time are how ranks met their end.

    A launcher ends the other ranks after one failed, too, but no scheduler calls that a preemption.
    """
    stated = [item for item in facts.faults if item.signature in _STATED_PREEMPTION and "reempt" in item.text.lower()]
    raised = [item for item in facts.faults if item.cause == "workload.rank.exception" and item.role is Role.ROOT]
    long_before = any(
        item.source == preempted.source and (item.order or 0) + _JUST_BEFORE < (preempted.order or 0)
        for item in raised
        for preempted in stated
    )
    if not stated or not raised or long_before:
        return []
    doubt = derived(stated[0], "workload.rank.exception", "preempted-as-stated", 0.6)
    return [msgspec.structs.replace(doubt, role=Role.EXONERATING)]


_RULES = (
    _stuck_in_init,
    _slow_bootstrap,
    _never_arrived,
    _came_late,
    _cut_after_init,
    _gloo_waits,
    _mismatch,
    _missing_ranks,
    _gpu_not_requested,
    _refused_by_retry,
    _went_silent,
    _hangs_over_p2p,
    _efa_not_used,
    _traceback_cut_short,
    _preempted_as_stated,
)
