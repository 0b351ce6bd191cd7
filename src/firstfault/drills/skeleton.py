"""A scenario file to start from: complete, valid, and with a word about every choice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.errors import InputError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["new_scenario"]

_TEXT = """\
# yaml-language-server: $schema=./scenario.schema.json
# Check it:  firstfault drill lint {name}.yaml      (the schema: firstfault drill lint --schema > scenario.schema.json)
# See it:    firstfault drill plan {name}.yaml
# Run it:    firstfault drill run {name}.yaml
# Every field and every kind of injection: docs/scenarios.md
schema: firstfault.scenario/1
name: {name}                # the file's name without .yaml
title: One rank is stopped and never comes to the collective
about: |
  Why this is worth rehearsing, in a few lines.
topology: two-nodes         # two-nodes, eks-two-nodes, or a whole topology written here
workload:
  program: training         # all_reduce, training, or the path of your own program
  ranks: [node-a, node-b]   # the node of each global rank
  timeouts: {{gloo: 5, nccl: 15}}      # process-group timeout while the fault acts, seconds
  deadlines: {{gloo: 30, nccl: 45}}    # a job that still runs then counts as hung, and is ended
  sums: []                  # what every rank prints as sum-first when all is well; empty: not compared
injections:                 # what is broken; each has its own undo
  - kind: signal
    rank: 1
    signal: SIGSTOP
    start: {{step: 3, rank: 1}}        # without `start` it acts before the job
cause: workload.collective.straggler   # what triage must name from the logs alone; none: the job stays healthy
also: [workload.collective.timeout]
expect:                     # these rows decide the exit code
  - {{item: open paths, measure: "probes.*", equals: open}}
predict:                    # what a person would have guessed; never decides
  - {{item: ranks, expected: all fail, measure: ranks.outcome, equals: all failed}}
"""


def new_scenario(path: Path) -> None:
    """Write a scenario file to start from.

    Args:
        path: The new file, named `<name>.yaml`.

    Raises:
        UsageError: The name does not fit.
        InputError: The file exists, or cannot be written.
    """
    if path.suffix != ".yaml" or not re.fullmatch(r"[a-z0-9][a-z0-9-]*", path.stem):
        raise UsageError(f"{path}: not a name for a scenario", "use lower-case letters, digits and -, and .yaml")
    try:
        with path.open("x", encoding="utf-8") as stream:
            stream.write(_TEXT.format(name=path.stem))
    except FileExistsError as error:
        raise InputError(f"{path} exists", "choose another name, or remove it") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
