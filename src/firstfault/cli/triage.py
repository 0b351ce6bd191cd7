"""`firstfault triage`: which layer failed first, from files, folders, archives or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from firstfault.cli.output import write_output
from firstfault.errors import ExitCode, UsageError, worst_exit_code

__all__ = ["triage_command"]


@click.command("triage", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, metavar="PATH...")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file, not the terminal.")
def triage_command(paths: tuple[str, ...], format_: str, output: Path | None) -> int:
    """Say which layer failed first, and prove it with the lines that show it.

    PATH is a log, a folder or an archive of logs; "-" is standard input. Paste whatever there is.

    Exit code 0: healthy. 1: a fault. 2: an input cannot be read. 3: the evidence does not say.
    """
    from firstfault.diagnosis import triage  # noqa: PLC0415 - the engine is not needed for --help
    from firstfault.report import render_triage  # noqa: PLC0415

    if not paths:
        raise UsageError("nothing to read", 'give files, folders or archives, or "-" for standard input')
    report = triage(paths, stdin=sys.stdin.buffer)
    rendered = render_triage(report, format_)
    write_output(rendered, output)
    for problem in report.problems:
        click.echo(f"firstfault: {problem}", err=True)
    verdict = {"fault": ExitCode.FINDING, "healthy": ExitCode.OK, "unknown": ExitCode.UNKNOWN}[report.status]
    return int(worst_exit_code(verdict, *([ExitCode.USAGE] if report.problems else [])))
