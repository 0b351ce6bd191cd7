"""`firstfault triage`: which layer failed first, from files, folders, archives or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from firstfault.cli.ending import ending_in_order
from firstfault.cli.output import GivenText, TargetPath, complain, page_width, write_output
from firstfault.errors import ExitCode, UsageError, worst_exit_code

if TYPE_CHECKING:
    from firstfault.model import TriageReport

__all__ = ["triage_command"]


@click.command("triage", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", type=TargetPath(dir_okay=False, path_type=Path), help="Write to a file, not the terminal.")
@click.option("--live", is_flag=True, help="Read the job's Pods, events, nodes, logs and security groups now.")
@click.option(
    "--namespace", "-n", type=GivenText(), help="With --live: namespace of the job; the context's own by default."
)
@click.option(
    "--selector", "-l", type=GivenText(), help="With --live: label selector of its Pods, e.g. job-name=train."
)
@click.option("--context", type=GivenText(), help="With --live: kubeconfig context.")
def triage_command(
    paths: tuple[str, ...],
    format_: str,
    output: Path | None,
    live: bool,
    namespace: str | None,
    selector: str | None,
    context: str | None,
) -> int:
    """Say which layer failed first, and prove it with the lines that show it.

    PATH is a log, a folder or an archive of logs; "-" is standard input. Paste whatever there is: logs of some or all
    ranks, kubectl output, dmesg. With --live the evidence is read from the cluster with read-only calls (GET,
    ec2:Describe*); `firstfault collect --permissions` prints the rights that this needs.

    \b
      firstfault triage job.log
      kubectl logs --tail=-1 --prefix -l job-name=JOB | firstfault triage -
      firstfault triage --live -n NAMESPACE -l job-name=JOB

    Exit code 0: healthy. 1: a fault. 2: an input cannot be read (the others are diagnosed all the same). 3: the
    evidence does not say; the report names what would, with the command that gets it.
    """  # noqa: D301 - click's mark for lines that stay as they are
    from firstfault.diagnosis import triage  # noqa: PLC0415 - the engine is not needed for --help
    from firstfault.report import render_triage  # noqa: PLC0415

    _spare_inputs(paths, output)
    if live:
        report = _triage_live(paths, namespace, selector, context)
    elif namespace or selector or context:
        raise UsageError("--namespace, --selector and --context belong to --live")
    elif not paths:
        raise UsageError("nothing to read", 'give files, folders or archives, "-" for standard input, or --live')
    else:
        report = triage(paths, stdin=_stdin())
    # Of inputs of which none could be read there is nothing to tell a person but why; a program gets its JSON.
    if format_ == "json" or not report.problems or report.sources or report.set_aside:
        write_output(render_triage(report, format_, width=page_width(output)), output)
    for problem in report.problems:
        complain(problem)
    verdict = {"fault": ExitCode.FINDING, "healthy": ExitCode.OK, "unknown": ExitCode.UNKNOWN}[report.status]
    return int(worst_exit_code(verdict, *([ExitCode.USAGE] if report.problems else [])))


def _spare_inputs(paths: tuple[str, ...], output: Path | None) -> None:
    """Refuse to write the report over the evidence.

    Raises:
        UsageError: The output is one of the inputs.
    """
    if output is None or not output.exists():
        return
    for path in paths:
        if path != "-" and Path(path).exists() and output.samefile(path) and output.is_file():
            raise UsageError(f"--output {output} is one of the inputs", "name another file")


def _stdin() -> BinaryIO | None:
    """Return the bytes of standard input; None where it was closed (`<&-`)."""
    return None if sys.stdin is None else sys.stdin.buffer


def _triage_live(
    paths: tuple[str, ...], namespace: str | None, selector: str | None, context: str | None
) -> TriageReport:
    """Gather the live evidence into a private folder, triage it beside any given paths, and delete it."""
    from firstfault.collect import gather_live  # noqa: PLC0415 - imports the Kubernetes client
    from firstfault.diagnosis import triage  # noqa: PLC0415
    from firstfault.model.scratch import private_folder  # noqa: PLC0415 - needs the locks of POSIX

    with ending_in_order(), private_folder("firstfault-live-") as folder:
        missing = gather_live(folder, namespace=namespace, selector=selector or "", context=context)
        report = triage([folder, *paths], stdin=_stdin())
    # What could not be looked at cannot be called healthy: a job's own Pods and logs are what healthy rests on.
    blind = any(each.what.startswith(("Pods", "log of")) for each in missing)
    status = "unknown" if report.status == "healthy" and blind else report.status
    return msgspec.structs.replace(report, status=status, missing=[*missing, *report.missing])
