"""Scenarios as data: what is run, what is broken, what is expected. Files under `scenarios/`, or the user's own.

A scenario names a topology and a workload, one or more injections, and what should be measured while they act. The
machinery in `engine` knows no scenario. The JSON Schema of these structs is `firstfault drill lint --schema`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec
import yaml

from firstfault.drills.injectors import AnyInjector
from firstfault.drills.topology import Topology
from firstfault.errors import InputError, UsageError
from firstfault.model.yaml_errors import yaml_problem

__all__ = [
    "SCHEMA",
    "Expectation",
    "Scenario",
    "Workload",
    "bundled_scenarios",
    "find_scenario",
    "find_topology",
    "json_schema",
    "load_scenario",
]

SCHEMA: Final = "firstfault.scenario/1"
_HERE = Path(__file__).parent
_MAX_BYTES = 1 << 20
_HOW_TO_WRITE = (
    "`firstfault drill new FILE.yaml` writes one to start from, `firstfault drill lint --schema` the schema; "
    "docs/scenarios.md explains the fields"
)
T = TypeVar("T")
# What a measured value may be compared with. No deeper nesting: YAML's aliases could make that astronomically large.
Scalar = str | int | float | bool | None
Comparable = Scalar | list[Scalar] | dict[str, Scalar]
Need = Literal["gpu", "two-gpus", "gloo", "live", "kernel-log", "direct"]


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The job that runs in every phase.

    Attributes:
        ranks: The node of each global rank, in order.
        program: A bundled program's name, or the path of the user's own (relative to the scenario file).
        args: Arguments of the program.
        env: Environment of every rank, beside the topology's and what torch.distributed needs. `{host}` is replaced by
            the node's host name.
        rank_env: Further environment by rank.
        rank_unset: Environment variables that a rank must not have, by rank.
        missing: Ranks that are counted in the world size and not started.
        entrypoint: exec: the program is the container's process · shell: a shell starts it and says how it ended.
        master: Name and port of the c10d store.
        timeouts: Process-group timeout in the injected phase by backend, in seconds.
        calm_timeout_s: Process-group timeout in the other phases.
        deadline_s: A job that runs longer is ended and counts as hung; None: six timeouts and a minute.
        deadlines: The same for the injected phase alone, by backend: where nothing ends a stuck job, something has to.
        sums: What every rank of the bundled program prints when all is well; empty when the program prints no sums.
    """

    ranks: list[str]
    program: str = "all_reduce"
    args: list[str] = []
    env: dict[str, str] = {}
    rank_env: dict[int, dict[str, str]] = {}
    rank_unset: dict[int, list[str]] = {}
    missing: list[int] = []
    entrypoint: Literal["exec", "shell"] = "exec"
    master: tuple[str, int] = ("nccl-master", 29500)
    timeouts: dict[str, float] = msgspec.field(default_factory=lambda: {"gloo": 5, "nccl": 30})
    calm_timeout_s: float = 120
    deadline_s: float | None = None
    deadlines: dict[str, float] = {}
    sums: list[float] = msgspec.field(default_factory=lambda: [3.0, 6.0, 12.0, 24.0, 48.0])


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One thing to compare while the fault acts.

    Attributes:
        item: What is compared, as the table shows it.
        measure: Path into what was measured (docs/reference: `verdict.cause`, `ladder.stopped_at`, `probes.webhook-*`,
            `firewall.node.ingress`, `ranks.exit_codes`, ...). A `*` stands for all keys that fit; all must agree.
        equals: The measured value must be this.
        any_of: The measured value must be one of these.
        at_least: The measured number must not be smaller.
        at_most: The measured number must not be larger.
        partial: A measured value that confirms the expectation in part only.
        note: What to say beside a partial match.
        expected: How the table words the expectation; by default the value itself.
        only: Conditions under which it applies (`backend: nccl`, `launcher: direct`); otherwise the row is n/a.
        otherwise: Why it is n/a when the conditions do not hold.
    """

    item: str
    measure: str
    equals: Comparable = None
    any_of: list[Comparable] = []
    at_least: float | None = None
    at_most: float | None = None
    partial: Comparable = None
    note: str = ""
    expected: str = ""
    only: dict[str, str] = {}
    otherwise: str = ""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One drill.

    Attributes:
        name: Its name; the file is `<name>.yaml`.
        title: What happens, in one line.
        about: Why it is worth rehearsing; a short paragraph.
        topology: Name of a bundled topology, or one written here.
        workload: The job.
        injections: What is broken, and when.
        cause: Cause id that triage must name from the logs alone; "none": the job must stay healthy.
        causes: The same by backend or launcher, where the same fault shows at another rung.
        stops_at: Rung of the ladder on which the first rank must stop, by launcher, or by launcher and backend
            (`direct/nccl`); empty: not compared.
        refuse: What a node's firewall does with what no rule allows: silence, as security groups do, or an answer.
        expect: What else must be measured while the fault acts. These rows decide whether the drill went as expected.
        predict: What a person would have guessed; refuted guesses are findings, not failures.
        variants: Names of other drills that are this one with a difference, by the command's option.
        also: Causes accepted beside `cause` where the evidence allows no finer word.
        needs: What the machine must have beside the world itself; `run --all` leaves the others out and says so.
        schema: Version of this format.
    """

    name: str
    title: str
    topology: str | Topology
    workload: Workload
    injections: list[AnyInjector]
    cause: str
    causes: dict[str, str] = {}
    about: str = ""
    stops_at: dict[str, str] = {}
    refuse: Literal["silence", "answer"] = "silence"
    expect: list[Expectation] = []
    predict: list[Expectation] = []
    variants: dict[str, str] = {}
    also: list[str] = []
    needs: list[Need] = []
    schema: Literal["firstfault.scenario/1"] = SCHEMA

    def expected_cause(self, backend: str, launcher: str) -> str:
        """Return the cause that triage must name when the job runs on a backend, started by a launcher."""
        return self.causes.get(launcher) or self.causes.get(backend, self.cause)

    def expected_stop(self, launcher: str, backend: str) -> str:
        """Return the rung on which the first rank must stop; "" when the scenario does not say."""
        return self.stops_at.get(f"{launcher}/{backend}") or self.stops_at.get(launcher, "")

    def find_topology(self) -> Topology:
        """Return the topology, read from its file when the scenario only names it."""
        return find_topology(self.topology) if isinstance(self.topology, str) else self.topology


def _read(path: Path, kind: type[T]) -> T:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{path}: not a file")  # a pipe or a device may never end
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: larger than {_MAX_BYTES} bytes: not a scenario")
        data = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
        if not isinstance(data, dict):
            what = "it is empty" if data is None else "it is not a mapping of names to values"
            raise InputError(f"{path}: {what}", _HOW_TO_WRITE)
        return msgspec.convert(data, kind)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML: {yaml_problem(error)}", _HOW_TO_WRITE) from error
    except ValueError as error:  # dates and numbers that YAML allows and Python does not, too
        raise InputError(f"{path}: {error}", _HOW_TO_WRITE) from error


def bundled_scenarios() -> list[Scenario]:
    """Return the scenarios that ship with the package, by name."""
    return [load_scenario(path) for path in sorted((_HERE / "scenarios").glob("*.yaml"))]


@cache
def load_scenario(path: Path) -> Scenario:
    """Read one scenario file.

    Raises:
        InputError: It cannot be read, or is not a scenario; the message names the file and the field.
    """
    return _read(path, Scenario)


@cache
def find_topology(name: str) -> Topology:
    """Return a bundled topology.

    Raises:
        InputError: There is none of that name.
    """
    path = _HERE / "topologies" / f"{name}.yaml"
    if "/" in name or not path.is_file():
        names = ", ".join(sorted(path.stem for path in path.parent.glob("*.yaml")))
        raise InputError(f"no topology is called {name!r}", f"bundled: {names}; or write one in the scenario itself")
    return _read(path, Topology)


def find_scenario(name: str) -> Scenario:
    """Return a scenario by the name of a bundled one or the path of a file.

    Raises:
        UsageError: Neither.
        InputError: The file is not a scenario.
    """
    bundled = _HERE / "scenarios" / f"{name}.yaml"
    if "/" not in name and bundled.is_file():
        return load_scenario(bundled)
    if name.endswith((".yaml", ".yml")):
        return load_scenario(Path(name))
    raise UsageError(
        f"no drill is called {name!r}", "`firstfault drill list` shows them; or give a scenario file (.yaml)"
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario file."""
    return msgspec.json.schema(Scenario)
