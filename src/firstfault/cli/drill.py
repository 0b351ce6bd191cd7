"""`firstfault drill`: make a fault happen safely, watch it be diagnosed, and prove that everything was put back."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from firstfault.cli.drill_eks import eks_options
from firstfault.cli.output import Seconds, TargetPath, complain, write_output
from firstfault.errors import ExitCode, InputError, UsageError, worst_exit_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.drills import EksOptions
    from firstfault.model.drill import DrillReport

__all__ = ["drill"]

_FORMAT = click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
_OUTPUT = click.option(
    "--output", type=TargetPath(dir_okay=False, path_type=Path), help="Write to a file, not the terminal."
)
_WORLD = click.option("--world", type=click.Choice(["local", "eks"]), default="local", show_default=True, help="Where.")
_HELP = {"help_option_names": ["-h", "--help"]}


def _width(output: Path | None) -> int:
    """Return the columns to fill: the terminal's, or 100 where there is none."""
    if output is not None or not sys.stdout.isatty():
        return 100
    return shutil.get_terminal_size((100, 24)).columns


def _color(output: Path | None) -> bool:
    """Whether the result may be coloured: a terminal that can, and nobody who asked for none (no-color.org)."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return output is None and sys.stdout.isatty() and not plain


@click.group("drill", context_settings=_HELP)
def drill() -> None:
    """Make a fault happen safely, watch it be diagnosed, and prove that everything was put back.

    \b
      firstfault drill list
      firstfault drill plan sg-block    what it would change; changes nothing
      firstfault drill run sg-block     on this machine, without root or GPU,
                                        in network namespaces of its own
      firstfault drill recover          after a run that was killed
    """  # noqa: D301 - click's mark for lines that stay as they are


@drill.command("list", context_settings=_HELP)
@_FORMAT
@_OUTPUT
def list_command(format_: str, output: Path | None) -> int:
    """List the drills with the cause that each rehearses."""
    from firstfault.drills import bundled_scenarios  # noqa: PLC0415 - not needed for --help
    from firstfault.report.drill import render_drill_list  # noqa: PLC0415

    write_output(render_drill_list(bundled_scenarios(), format_, width=_width(output)), output)
    return int(ExitCode.OK)


@drill.command("plan", context_settings=_HELP, short_help="Say exactly what a drill would change; change nothing.")
@click.argument("name")
@click.option("--variant", default="", help="One of the drill's variants.")
@_WORLD
@eks_options
@_FORMAT
@_OUTPUT
def plan_command(
    name: str,
    variant: str,
    *,
    world: str,  # noqa: ARG001 - `eks` says it
    eks: EksOptions | None,
    format_: str,
    output: Path | None,
) -> int:
    """Say exactly what a drill would change, what is expected and how it is undone. Changes nothing."""
    from firstfault.drills import plan_drill  # noqa: PLC0415
    from firstfault.report.drill import render_drill_plan  # noqa: PLC0415

    scenario, change = plan_drill(name, variant=variant, eks=eks)
    write_output(render_drill_plan(scenario, change, format_, width=_width(output)), output)
    return int(ExitCode.OK)


@drill.command("show", context_settings=_HELP)
@click.argument("name")
@_FORMAT
@_OUTPUT
def show_command(name: str, format_: str, output: Path | None) -> int:
    """Show a drill's whole scenario, as YAML or JSON."""
    import msgspec  # noqa: PLC0415

    from firstfault.drills import find_scenario  # noqa: PLC0415

    scenario = find_scenario(name)
    encoded = msgspec.yaml.encode(scenario) if format_ == "text" else msgspec.json.format(msgspec.json.encode(scenario))
    write_output(encoded.decode(), output)
    return int(ExitCode.OK)


@drill.command("lint", context_settings=_HELP)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--schema", is_flag=True, help="Print the JSON Schema of scenario files.")
@_FORMAT
@_OUTPUT
def lint_command(files: tuple[Path, ...], *, schema: bool, format_: str, output: Path | None) -> int:
    """Check scenario files without running them."""
    import msgspec  # noqa: PLC0415

    from firstfault.drills import json_schema, lint_scenario  # noqa: PLC0415
    from firstfault.report.scenarios import Linted, render_lint  # noqa: PLC0415

    if schema:
        write_output(msgspec.json.format(msgspec.json.encode(json_schema())).decode(), output)
        return int(ExitCode.OK)
    if not files:
        raise UsageError("nothing to check", "give scenario files, or --schema")
    found = []
    for path in files:
        try:
            found.append(Linted(file=str(path), problems=lint_scenario(path)))
        except InputError as error:
            complain(str(error))
            found.append(Linted(file=str(path), unreadable=str(error)))
    if format_ == "json" or any(each.result != "unreadable" for each in found):
        write_output(render_lint(found, format_), output)
    codes = {"valid": ExitCode.OK, "problems": ExitCode.FINDING, "unreadable": ExitCode.USAGE}
    return int(worst_exit_code(*(codes[each.result] for each in found)))


@drill.command("new", context_settings=_HELP, short_help="Write a scenario file to start from.")
@click.argument("file", type=click.Path(path_type=Path))
@_FORMAT
@_OUTPUT
def new_command(file: Path, *, format_: str, output: Path | None) -> int:
    """Write a scenario to start from into FILE; its name is that of the drill, such as my-fault.yaml."""
    from firstfault.drills import new_scenario  # noqa: PLC0415
    from firstfault.report.scenarios import render_new  # noqa: PLC0415

    new_scenario(file)
    write_output(render_new(file, format_), output)
    return int(ExitCode.OK)


@drill.command("recover", context_settings=_HELP)
@_FORMAT
@_OUTPUT
def recover_command(format_: str, output: Path | None) -> int:
    """Finish what interrupted runs owe. Harmless when nothing is owed, and when repeated."""
    from firstfault.drills import recover, state_dir  # noqa: PLC0415
    from firstfault.report.drill import render_recovered  # noqa: PLC0415

    found = recover(state_dir())
    write_output(render_recovered(found, format_), output)
    return int(ExitCode.RESTORE_FAILED if any(run.outcome == "owed" for run in found) else ExitCode.OK)


@drill.command("report", context_settings=_HELP, short_help="Show the result of an earlier run again.")
@click.argument("run", required=False)
@_FORMAT
@_OUTPUT
def report_command(run: str | None, format_: str, output: Path | None) -> int:
    """Show the result of an earlier run again: RUN is its folder, its journal or its name; by default the last one."""
    from firstfault.drills import read_report  # noqa: PLC0415
    from firstfault.report.drill import render_drill  # noqa: PLC0415

    write_output(render_drill(read_report(run), format_, width=_width(output), color=_color(output)), output)
    return int(ExitCode.OK)


@drill.command("run", context_settings=_HELP, short_help="Baseline, fault, diagnosis, restoration, proof.")
@click.argument("name", required=False)
@click.argument("program_args", nargs=-1, metavar="[-- PROGRAM-ARGS...]")
@click.option("--all", "everything", is_flag=True, help="Run every drill of the world.")
@_WORLD
@click.option(
    "--backend",
    type=click.Choice(["auto", "gloo", "nccl"]),
    default="auto",
    show_default=True,
    help="auto: nccl where PyTorch sees a GPU, else gloo.",
)
@click.option(
    "--launcher",
    type=click.Choice(["direct", "torchrun"]),
    default="direct",
    show_default=True,
    help="How the ranks are started.",
)
@click.option(
    "--timeout",
    type=Seconds(positive=True),
    metavar="SECONDS",
    help="Process-group timeout under the fault [5; nccl 30].",
)
@click.option("--program", type=click.Path(path_type=Path), help="Drill your own training program.")
@click.option("--fresh", is_flag=True, help="Start every rank as a new Python, as --program and GPUs always are.")
@click.option("--allow-kernel-log", is_flag=True, help="kmsg-xid-sensor: write a line to the kernel log; it stays.")
@click.option("--at-once", type=click.IntRange(1, 64), help="--all: drills side by side [twice the processors, 4-8].")
@click.option(
    "--toggle", type=click.Choice(["aux", "node", "both"]), help="sg-block: which Terraform variable to flip."
)
@click.option("--reject", is_flag=True, help="Answer what no rule allows, as host firewalls do, instead of silence.")
@click.option(
    "--yes", is_flag=True, help="eks: really change the cluster, after `firstfault drill plan` has shown what."
)
@eks_options
@_FORMAT
@_OUTPUT
def run_command(
    name: str | None,
    program_args: tuple[str, ...],
    *,
    everything: bool,
    world: Literal["local", "eks"],
    backend: Literal["auto", "gloo", "nccl"],
    launcher: Literal["direct", "torchrun"],
    timeout: float | None,
    program: Path | None,
    fresh: bool,
    at_once: int | None,
    allow_kernel_log: bool,
    toggle: str | None,
    reject: bool,
    yes: bool,
    eks: EksOptions | None,
    format_: str,
    output: Path | None,
) -> int:
    """Run a drill: baseline, fault, diagnosis from the logs alone, restoration, proof.

    NAME is a drill of `firstfault drill list` or a scenario file. Exit code 0: as expected and restored. 1: not as
    expected, restored all the same; or the local world was killed, and the fault with it. 2: this machine or the call
    does not allow it, nothing was changed. 4: not restored.
    """
    from firstfault.drills import Options  # noqa: PLC0415

    if program_args and program is None:
        raise UsageError(f"unexpected argument {program_args[0]!r}", "arguments after -- are for --program")
    options = Options(
        backend=backend,
        launcher=launcher,
        timeout=timeout,
        program=[str(program), *program_args] if program else [],
        variant=_variant(toggle, reject=reject),
        fresh=fresh,
        allow_kernel_log=allow_kernel_log,
        eks=eks,
    )
    if everything == bool(name):
        raise UsageError("name one drill, or give --all", "`firstfault drill list` shows them")
    if eks is not None and (everything or not yes):
        raise UsageError(
            "a drill on a cluster changes security groups and cuts nodes off; it runs one at a time, with --yes",
            "look at `firstfault drill plan NAME --world eks …` first, then add --yes; --all is for the local world",
        )
    if everything:
        return _run_all(options, format_, output, at_once)
    return _run_one(str(name), world, options, format_, output)


def _variant(toggle: str | None, *, reject: bool) -> str:
    if toggle in {"aux", "node"} and reject:
        raise UsageError("--reject needs both toggles: with one alone nothing is cut")
    if reject:
        return "reject"
    return f"toggle-{toggle}" if toggle in {"aux", "node"} else ""


def _run_one(name: str, world: Literal["local", "eks"], options: Any, format_: str, output: Path | None) -> int:
    """Run a drill with its progress shown; an interrupt becomes the exit code that shells give it.

    A drill that had ended when it was interrupted is shown all the same.
    """
    from firstfault.cli.progress import Progress  # noqa: PLC0415
    from firstfault.drills import Interrupted, Interrupts, follow_parent, run_drill  # noqa: PLC0415

    result: DrillReport | None = None
    shown = False
    progress = Progress(sys.stderr)

    def show(report: DrillReport) -> None:
        from firstfault.report.drill import render_drill  # noqa: PLC0415

        write_output(render_drill(report, format_, width=_width(output), color=_color(output)), output)

    with Interrupts() as interrupts:
        try:
            follow_parent()
            with progress:
                result = run_drill(name, world=world, options=options, observer=progress)
            with interrupts.hold(stubborn=False):
                show(result)
                shown = True
        except Interrupted as interrupt:
            interrupts.ignore()
            result = result or interrupt.report
            if result is None:
                done = "the fault was taken back and" if progress.injected else "no fault had been made;"
                click.echo(f"{name}: interrupted; {done} nothing is left behind", err=True)
            else:
                if not shown:
                    show(result)
                where = Path(result.journal).parent / "report.json"
                click.echo(f"{name}: interrupted after its end; everything was put back; result: {where}", err=True)
            return 128 + interrupt.signal
    return int(_code(result))


def _run_all(options: Any, format_: str, output: Path | None, at_once: int | None) -> int:
    from firstfault.drills import (  # noqa: PLC0415
        Interrupted,
        Interrupts,
        LeftOut,
        Repeated,
        bundled_scenarios,
        run_everything,
    )
    from firstfault.report.drill import render_scoreboard  # noqa: PLC0415

    ended: dict[str, DrillReport] = {}
    begun: list[str] = []

    def done(report: DrillReport) -> None:
        ended[report.drill] = report
        verdict = report.verdict.cause if report.verdict else report.status
        click.echo(f"{report.drill}: {verdict}, {report.seconds:.1f} s", err=True)

    def show(reports: list[DrillReport], skipped: list[LeftOut], repeated: Sequence[Repeated] = ()) -> None:
        write_output(
            render_scoreboard(reports, format_, skipped, repeated, width=_width(output), color=_color(output)), output
        )

    with Interrupts() as interrupts:
        try:
            reports, skipped, repeated = run_everything(options, at_once=at_once, begun=begun.append, done=done)
        except Interrupted as interrupt:
            interrupts.ignore()
            reports = [ended[name] for name in sorted(ended)]
            stopped = sorted(set(begun) - {each.drill for each in reports})
            others = sorted({each.name for each in bundled_scenarios()} - set(begun))
            skipped = [LeftOut(each, "interrupted", failed=True) for each in stopped]
            show(reports, [*skipped, *(LeftOut(each, "interrupted before its turn") for each in others)])
            count = f"{len(stopped)} drills were stopped" if len(stopped) != 1 else "1 drill was stopped"
            click.echo(f"interrupted: {count}; whatever fault they had made was taken back", err=True)
            return 128 + interrupt.signal
        interrupts.ignore()
        show(reports, skipped, repeated)
    failed = [ExitCode.USAGE for each in skipped if each.failed]
    return int(worst_exit_code(*map(_code, reports), *failed))


def _code(report: DrillReport) -> ExitCode:
    if not report.restored:
        return ExitCode.RESTORE_FAILED
    return ExitCode.OK if report.as_expected else ExitCode.FINDING
