"""The front door of the drills: run one by name, or say what it would do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from firstfault.act.support import require_linux
from firstfault.drills.eks.options import EksOptions
from firstfault.drills.engine import Drill, Observer, Settings
from firstfault.drills.everything import refuse_what_lacks
from firstfault.drills.jobs import TORCH_PROGRAMS, Backend, Launcher, choose_backend, require_torch
from firstfault.drills.journal import Journal, runs, state_dir
from firstfault.drills.lint import problems
from firstfault.drills.local import Local
from firstfault.drills.scenario import Comparable, Expectation, Scenario, find_scenario
from firstfault.errors import InputError, UsageError
from firstfault.model.drill import Change, DrillReport
from firstfault.model.files import refuse_special

__all__ = ["Options", "plan_drill", "read_report", "run_drill"]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may choose.

    Attributes:
        backend: Backend of the process group; auto: nccl where PyTorch sees a GPU, else gloo.
        launcher: How ranks are started.
        timeout: Process-group timeout in the injected phase, in seconds; None: the scenario's.
        program: A program of the user's own instead of the scenario's, with its arguments.
        variant: One of the scenario's variants ("reject", "toggle-aux", ...); "": the drill itself.
        fresh: Start every rank as a new Python; otherwise ranks of bundled programs that need no GPU are forked from a
            process that has imported PyTorch once, which saves seconds.
        allow_kernel_log: Run a drill that writes a line to the machine's kernel log, which stays.
        state: Folder for journals; None: `state_dir()`.
        eks: The cluster, for the world "eks".
    """

    backend: Literal["auto", "gloo", "nccl"] = "auto"
    launcher: Launcher = "direct"
    timeout: float | None = None
    program: list[str] = []
    variant: str = ""
    fresh: bool = False
    allow_kernel_log: bool = False
    state: Path | None = None
    eks: EksOptions | None = None


class _Silent:
    """Watches nothing."""

    def event(self, name: str, fields: dict[str, Any]) -> None:
        """Ignore it."""

    def tick(self) -> None:
        """Ignore it."""


def _prepared(name: str, options: Options) -> tuple[Scenario, Path]:
    """Return the scenario as this run wants it, and the folder that relative program paths start from."""
    scenario = find_scenario(name)
    if options.variant:
        if options.variant not in scenario.variants:
            known = ", ".join(scenario.variants) or "none"
            raise UsageError(f"drill {scenario.name} has no variant {options.variant!r}", f"it has: {known}")
        scenario = find_scenario(scenario.variants[options.variant])
    base = Path(name).resolve().parent if name.endswith((".yaml", ".yml")) else Path.cwd()
    if options.program:
        program, *args = options.program
        workload = msgspec.structs.replace(scenario.workload, program=program, args=args, sums=[])
        expect = [_for_any_timeout(row) for row in scenario.expect]
        scenario, base = msgspec.structs.replace(scenario, workload=workload, expect=expect), Path.cwd()
    own = options.program or name.endswith((".yaml", ".yml"))  # what ships is checked by its tests
    if own and (wrong := problems(scenario, base)):
        raise InputError(f"drill {scenario.name}: {'; '.join(wrong)}", "`firstfault drill lint FILE` checks a file")
    return scenario, base


def _for_any_timeout(row: Expectation) -> Expectation:
    """Return what is expected of a program of one's own, which may have a longer timeout than the drill waits.

    Ranks that hang until the drill ends them have failed by the fault as much as those that gave up before.
    """
    if row.measure != "ranks.outcome" or row.equals != "all failed":
        return row
    outcomes: list[Comparable] = ["all failed", "some hung", "all hung"]
    expected = row.expected or "all failed, or hung until the deadline"
    return msgspec.structs.replace(row, equals=None, any_of=outcomes, expected=expected)


def plan_drill(name: str, *, variant: str = "", eks: EksOptions | None = None) -> tuple[Scenario, Change]:
    """Return a drill and exactly what its injections would change, without touching anything.

    Raises:
        UsageError: No drill has that name.
        InputError: The scenario file is not valid.
    """
    scenario, _ = _prepared(name, Options(variant=variant))
    if eks is not None:
        from firstfault.drills.eks.run import plan_on_cluster  # noqa: PLC0415 - imports the Kubernetes client

        return scenario, plan_on_cluster(scenario, eks)
    world = Local(scenario.find_topology(), state=state_dir(), table="firstfault")
    parts = [(injection.start, injection.describe(world)) for injection in scenario.injections]
    return scenario, Change(
        summary="; ".join(part.summary for _, part in parts if part.summary),
        rules=[rule for _, part in parts for rule in part.rules],
        steps=[f"{step}, {start}" for start, part in parts for step in part.steps],
    )


def run_drill(
    name: str,
    *,
    world: Literal["local", "eks"] = "local",
    options: Options | None = None,
    observer: Observer | None = None,
) -> DrillReport:
    """Run a drill: baseline, fault, diagnosis, restoration, proof.

    Args:
        name: Name of a bundled drill, or path of a scenario file.
        world: Where the drill takes place.
        options: The caller's choices.
        observer: Who watches the progress.

    Raises:
        UsageError: No drill has that name, or an option does not fit.
        InputError: The scenario is not valid, or the journal cannot be written.
        UnsupportedError: This machine cannot make the world, or lacks what the drill needs (PyTorch, a GPU); nothing
            was changed.
        RestoreError: A fault could not be taken back.
        Interrupted: Ctrl-C or SIGTERM (a KeyboardInterrupt); everything was taken back before.
    """
    options = options or Options()
    if options.timeout is not None and options.timeout <= 0:
        raise UsageError(f"timeout {options.timeout:g}: not a positive number of seconds")
    if world not in {"local", "eks"}:
        raise UsageError(f"no world is called {world!r}", "the worlds are: local, eks")
    if world == "eks":
        return _on_cluster(name, options, observer or _Silent())
    require_linux()
    scenario, base = _prepared(name, options)
    if "kernel-log" in scenario.needs and not options.allow_kernel_log:
        raise UsageError(
            f"drill {scenario.name} writes a line to this machine's kernel log, and it stays there",
            "add --allow-kernel-log if that is what you want",
        )
    backend = choose_backend(options.backend)
    refuse_what_lacks(scenario, backend, options.launcher)
    if scenario.workload.program in TORCH_PROGRAMS or options.launcher == "torchrun":
        require_torch()
    topology = scenario.find_topology()
    state = (options.state or state_dir()).absolute()
    settings = Settings(backend=backend, launcher=options.launcher, timeout=options.timeout, base=base)
    journal = Journal.create(state)
    try:
        drill = Drill(
            scenario,
            Local(
                topology,
                state=state,
                table="firstfault_" + journal.folder.name.rpartition("-")[2],
                refuse=scenario.refuse == "answer",
                preload=_may_preload(scenario, settings) and not options.fresh,
            ),
            topology=topology,
            settings=settings,
            journal=journal,
            observer=observer or _Silent(),
        )
        return drill.run()
    finally:
        journal.close()


def _may_preload(scenario: Scenario, settings: Settings) -> bool:
    """Whether ranks may be forked: our own programs, without a launcher, and without a GPU that forks could confuse."""
    bundled = scenario.workload.program in TORCH_PROGRAMS
    return bundled and settings.launcher == "direct" and settings.backend == "gloo"


def _on_cluster(name: str, options: Options, observer: Observer) -> DrillReport:
    from firstfault.drills.eks.run import run_on_cluster  # noqa: PLC0415 - imports the Kubernetes client

    if options.eks is None:
        raise UsageError("a drill on a cluster needs to know the cluster", "give `eks` in the options")
    scenario, base = _prepared(name, options)
    automatic: Backend = "nccl" if options.eks.gpus else "gloo"
    return run_on_cluster(
        scenario,
        options.eks,
        backend=automatic if options.backend == "auto" else options.backend,
        launcher=options.launcher,
        timeout=options.timeout,
        base=base,
        state=(options.state or state_dir()).absolute(),
        observer=observer,
    )


def read_report(run: str | None = None, *, state: Path | None = None) -> DrillReport:
    """Return the report of an earlier run.

    Args:
        run: The run's folder, a file in it, or its name; None: the last run that has a report.
        state: The state folder; None: `state_dir()`.

    Raises:
        InputError: There is no such run, or it was interrupted and has no report.
    """
    root = state or state_dir()
    if run is None:
        folders = [folder for folder in runs(root) if (folder / "report.json").is_file()]
        if not folders:
            raise InputError(f"{root}: no run has a report", "run one: `firstfault drill run sg-block`")
        folder = folders[-1]
    else:
        folder = Path(run) if Path(run).exists() else root / "runs" / run
        folder = folder.parent if folder.is_file() else folder
    refuse_special(folder / "report.json", "the report")
    try:
        return msgspec.json.decode((folder / "report.json").read_bytes(), type=DrillReport)
    except OSError as error:
        raise InputError(
            f"{folder}: {error.strerror}: no report there",
            "an interrupted run has none; its journal says how far it came",
        ) from error
    except msgspec.DecodeError as error:
        raise InputError(f"{folder / 'report.json'}: not a drill's report: {error}") from error
