"""What would decide it: the input that is not there, and the command that gets it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from firstfault.diagnosis.arithmetic import missing_numbers
from firstfault.diagnosis.objects import not_well
from firstfault.diagnosis.serving import WALLS
from firstfault.model import Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.diagnosis.facts import Facts
    from firstfault.model import SetAside, SourceInfo

__all__ = ["what_is_missing"]

MOST_PODS = 3


def what_is_missing(
    facts: Facts,
    sources: list[SourceInfo],
    cause: str | None,
    set_aside: Sequence[SetAside] = (),
    *,
    unread: bool = False,
) -> list[Missing]:
    """Return what to fetch next, most telling first; empty when the evidence decides.

    Args:
        facts: What is known.
        sources: What was read.
        cause: The first cause; None when none is named.
        set_aside: What was not read as output.
        unread: Whether an input could not be read.
    """
    missing: list[Missing] = []
    if not any(source.bytes for source in sources):
        missing.append(
            Missing(
                what="any output of the job",
                why="there is no output of a run among the files, only what is set aside"
                if set_aside
                else ("no output could be read" if unread else "the input is empty"),
                command="kubectl logs --prefix --timestamps --tail=-1 -l job-name=JOB --all-containers > job.log",
            )
        )
        return missing
    if cause is None:
        for pod, line in islice(not_well(facts).items(), MOST_PODS):
            of = f"-n {pod.namespace} {pod.name}" if pod.namespace else pod.name
            missing.append(
                Missing(
                    what=f"why the Pod {pod.name} is not well",
                    why=f"its last word is: {' '.join(line.text.split())}",
                    command=f"kubectl describe pod {of}; kubectl logs {of} --all-containers --previous",
                )
            )
        missing += [
            Missing(
                what="the log of every rank, from its first line",
                why="nothing in the input is known to this catalogue, neither a fault nor a working job",
                command="kubectl logs --prefix --timestamps --tail=-1 -l job-name=JOB --all-containers > job.log",
            ),
            Missing(
                what="the Pods' events and states",
                why="a Pod that never started has no log",
                command="kubectl get pods,events -o json > cluster.json",
            ),
            Missing(
                what="the kernel log of the nodes",
                why="GPU faults (XID) are printed there and nowhere else",
                command="dmesg -T > dmesg.txt",
            ),
        ]
    world = facts.world_size
    ranks = {writer.rank for writer in facts.ranks}
    if world and 0 < len(ranks) < world and cause:
        absent = list(islice((rank for rank in range(world) if rank not in ranks), 8))
        missing.append(
            Missing(
                what=f"logs of ranks {', '.join(map(str, absent))}" if len(absent) < 8 else "logs of the other ranks",
                why=f"the job has {world} ranks, the input speaks of {len(ranks)}",
                command="kubectl logs --prefix --timestamps --tail=-1 -l job-name=JOB --all-containers > job.log",
            )
        )
    if cause in WALLS:
        missing += missing_numbers(facts.servers)
    if cause == "workload.collective.timeout" and not facts.has("watchdog.recorder"):
        missing.append(
            Missing(
                what="flight-recorder dumps of all ranks",
                why="they say which rank never came to the collective",
                command="export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1  # then run again",
            )
        )
    return missing
