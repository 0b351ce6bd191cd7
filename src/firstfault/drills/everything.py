"""Runs all drills of this machine, several at once: each in a process of its own, as a person would start it.

Every drill has its own world, journal and undo, so they cannot meet. Most of a drill is waiting for timeouts, which is
why more run at once than there are processors. What they share is the machine's time: a drill that did not go as
expected beside the others is run once more, alone, and both results are told.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec

from firstfault.drills.compare import MEASURED_BY_RUNNING
from firstfault.drills.interrupts import Interrupted
from firstfault.drills.jobs import choose_backend
from firstfault.drills.scenario import Need, Scenario, bundled_scenarios
from firstfault.errors import UnsupportedError, UsageError
from firstfault.model.drill import DrillReport
from firstfault.parent import die_with_parent
from firstfault.waiting import completed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from firstfault.drills.run import Options

__all__ = ["Everything", "LeftOut", "Repeated", "follow_parent", "left_out", "refuse_what_lacks", "run_everything"]

PARENT = "FIRSTFAULT_PARENT"
"""Variable by which a drill is told the process id of the run that started it."""

_TICK_S = 0.2
# A drill ends by its own deadlines long before; this is for one whose process hangs.
_LONGEST_S = 600.0


def follow_parent() -> None:
    """Where a run of all drills started this one: end in order, as by SIGTERM, when that run is killed.

    Raises:
        KeyboardInterrupt: It is gone already.
    """
    parent = os.environ.pop(PARENT, "")  # not for the programs that are drilled
    if not parent.isdigit():
        return
    die_with_parent(signal.SIGTERM)
    if os.getppid() != int(parent):
        raise Interrupted(signal.SIGTERM)


class LeftOut(NamedTuple):
    """A drill without a report, and why: this machine does not run it, or (`failed`) its process ended too early."""

    name: str
    why: str
    failed: bool = False


class Repeated(NamedTuple):
    """A drill that was run again, alone, and what had been wrong with it beside the others."""

    name: str
    why: str


class Everything(NamedTuple):
    """What a run of all drills gave: the reports by name, the drills that have none, and those that ran twice."""

    reports: list[DrillReport]
    left_out: list[LeftOut]
    repeated: list[Repeated]


def refuse_what_lacks(scenario: Scenario, backend: str, launcher: str) -> None:
    """Refuse a drill that was named although this machine, or this call, lacks what it needs.

    Raises:
        UsageError: Another backend or launcher was asked for than the drill needs.
        UnsupportedError: The machine lacks a GPU or a package.
    """
    # Whoever named it has been asked about the kernel log already.
    needs = [need for need in scenario.needs if need != "kernel-log"]
    scenario = msgspec.structs.replace(scenario, needs=needs)
    if not (why := left_out(scenario, backend, launcher)):
        return
    what = f"drill {scenario.name}: {why}"
    if "direct" in needs and launcher != "direct":
        raise UsageError(what, "leave --launcher out")
    if "gloo" in needs and backend != "gloo":
        raise UsageError(what, "use --backend gloo")
    if {"gpu", "two-gpus"} & set(needs):
        raise UnsupportedError(
            what,
            "run it on a machine whose GPUs PyTorch sees, without --backend gloo; `firstfault drill list` has others",
        )
    raise UnsupportedError(what)


def left_out(scenario: Scenario, backend: str, launcher: str = "direct") -> str:
    """Return why a drill is not part of `--all` here; "" when it is."""
    lacks: dict[Need, tuple[Callable[[], bool], str]] = {
        "kernel-log": (lambda: True, "writes to the machine's kernel log: run it by name, with --allow-kernel-log"),
        "two-gpus": (lambda: backend != "nccl" or _gpus() < 2, "needs two GPUs"),
        "gpu": (lambda: backend != "nccl", "needs a GPU"),
        "live": (_no_kubernetes_client, "needs the Kubernetes client: pip install 'firstfault[live]'"),
        "direct": (
            lambda: launcher != "direct",
            "its fault shows only where ranks are started directly, without a launcher",
        ),
        "gloo": (lambda: backend != "gloo", "its fault shows with gloo only"),
    }
    return next((why for need, (lacking, why) in lacks.items() if need in scenario.needs and lacking()), "")


def _no_kubernetes_client() -> bool:
    return importlib.util.find_spec("lightkube") is None


def _gpus() -> int:
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


def run_everything(
    options: Options,
    *,
    at_once: int | None = None,
    begun: Callable[[str], object] | None = None,
    done: Callable[[DrillReport], None] | None = None,
) -> Everything:
    """Run every bundled drill that this machine can run.

    Args:
        options: The caller's choices; backend, launcher, timeout and state folder are used.
        at_once: How many run side by side; None: two for each processor, at least four and at most eight.
        begun: Called with each drill's name when it begins, in a thread of its own.
        done: Called with each report as soon as it is there.

    Raises:
        KeyboardInterrupt: Ctrl-C; every drill has taken its fault back.
    """
    backend = choose_backend(options.backend)
    scenarios = bundled_scenarios()
    whys = {each.name: left_out(each, backend, options.launcher) for each in scenarios}
    skipped = [LeftOut(name, why) for name, why in whys.items() if why]
    names = [each.name for each in sorted(scenarios, key=_cost) if not whys[each.name]]
    reports: dict[str, DrillReport] = {}
    repeated: list[Repeated] = []

    def collect(name: str, result: DrillReport | LeftOut) -> None:
        if isinstance(result, LeftOut):
            skipped.append(result)
            return
        reports[name] = result
        if done is not None:
            done(result)

    at_once = at_once or min(8, max(4, 2 * (os.cpu_count() or 1)))
    with _Children(options, backend, begun) as children:
        pool = ThreadPoolExecutor(at_once)
        try:
            futures = {pool.submit(children.run, name): name for name in names}
            for future in completed(futures):
                collect(futures[future], future.result())
            # One after the other; drills that ran one at a time had no others whose load could explain anything.
            for name, report in sorted(reports.items()) if at_once > 1 else ():
                if why := spoiled(report):
                    repeated.append(Repeated(name, why))
                    for future in completed([pool.submit(children.run, name)]):
                        collect(name, future.result())
        finally:
            children.stop()
            pool.shutdown(cancel_futures=True)
    # A drill whose second process gave no report stands among those without one.
    without = {each.name for each in skipped}
    return Everything([reports[name] for name in sorted(reports) if name not in without], skipped, repeated)


def spoiled(report: DrillReport) -> str:
    """Return what a busy machine may have spoiled in a drill, "" when all is well or more than that is wrong.

    What was left behind, and a configuration that is not as before, is a defect however busy the machine was.
    """
    differs = [row for row in report.recovery if row.match not in {"yes", "n/a"}]
    if report.left_behind or any(row.item not in MEASURED_BY_RUNNING for row in differs):
        return ""
    wrong = [row for row in report.expected_vs_measured if row.basis == "scenario" and row.match not in {"yes", "n/a"}]
    if not report.expected_vs_measured:
        return "its job did not run well before the fault"
    return "; ".join(f"{row.item}: {row.measured} instead of {row.expected}" for row in [*wrong, *differs])


def _cost(scenario: Scenario) -> int:
    """Long ones first, so that none of them runs alone at the end."""
    return -sum(not injection.start.before_job for injection in scenario.injections) - len(scenario.workload.missing)


class _Children:
    """The processes of the drills that run now."""

    def __init__(self, options: Options, backend: str, begun: Callable[[str], object] | None) -> None:
        self._begun = begun
        self._arguments = ["--backend", backend, "--launcher", options.launcher, "--format", "json"]
        if options.timeout is not None:
            self._arguments += ["--timeout", str(options.timeout)]
        search = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
        self._env = {**os.environ, "PYTHONPATH": search, PARENT: str(os.getpid())}
        if options.state is not None:
            self._env["FIRSTFAULT_STATE"] = str(options.state)
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    @contextlib.contextmanager
    def _child(self, name: str) -> Iterator[subprocess.Popen[str]]:
        command = [sys.executable, "-m", "firstfault", "drill", "run", name, *self._arguments]
        child = subprocess.Popen(
            command, env=self._env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._running.add(child)
        try:
            yield child
        finally:
            self._running.discard(child)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, name: str) -> DrillReport | LeftOut:
        """Run one drill to its end."""
        if self._stopped:
            return LeftOut(name, "not started, as the others were stopped", failed=True)
        if self._begun is not None:
            self._begun(name)
        with self._child(name) as child:
            try:
                output, errors = child.communicate(timeout=_LONGEST_S)
            except subprocess.TimeoutExpired:
                child.terminate()  # it takes its fault back
                output, errors = child.communicate()
        try:
            return msgspec.json.decode(output, type=DrillReport)
        except msgspec.DecodeError:
            said = errors.strip().splitlines()[-1:] or ["nothing said"]
            return LeftOut(name, f"ended without a report, exit code {child.returncode}: {said[0]}", failed=True)

    def stop(self) -> None:
        """Ask what still runs to take its fault back and end; wait until it has."""
        self._stopped = True
        for child in list(self._running):
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)
        while self._running:
            time.sleep(_TICK_S)
