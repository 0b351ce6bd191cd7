"""`firstfault collect`: the commands that gather evidence, or a redacted bundle made by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from firstfault.cli.ending import ending_in_order
from firstfault.cli.output import GivenText, TargetPath, permissions_text, write_output
from firstfault.errors import ExitCode, InputError

if TYPE_CHECKING:
    from firstfault.collect.commands import Target

__all__ = ["collect"]

SCHEMA = "firstfault.collect/1"
_TODO = """\
what to do: make the first of these commands work here (is it the right --context and --namespace, is the login fresh,
    may you read them? `firstfault collect --permissions` prints the role), then run this again; or run the script that
    `firstfault collect` prints without --run where kubectl works, and give the folder to `firstfault triage`"""


@click.command()
@click.option("--namespace", "-n", type=GivenText(), help="Namespace of the job; the context's own by default.")
@click.option("--selector", "-l", type=GivenText(), help="Label selector of the job's Pods, e.g. job-name=train.")
@click.option("--context", type=GivenText(), help="kubeconfig context.")
@click.option("--run", is_flag=True, help="Run the commands and pack a redacted bundle, instead of printing them.")
@click.option(
    "--out",
    type=TargetPath(),
    default="firstfault-bundle.tar.gz",
    help="Where --run puts the bundle.",
    show_default=True,
)
@click.option("--permissions", is_flag=True, help="Print the role and the IAM policy that reading needs, and stop.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", type=TargetPath(dir_okay=False), help="Write there instead of standard output.")
def collect(
    namespace: str | None,
    selector: str | None,
    context: str | None,
    run: bool,
    out: str,
    permissions: bool,
    form: str,
    output: str | None,
) -> int:
    """Gather the evidence of a job, for people who cannot run `triage --live`.

    Without --run it prints a shell script to read, change and run where kubectl and aws work. `firstfault triage`
    reads the folder or bundle that comes out.

    \b
      firstfault collect -n NAMESPACE -l job-name=JOB > gather.sh
      firstfault collect -n NAMESPACE -l job-name=JOB --run
      firstfault triage firstfault-bundle.tar.gz

    Exit code 0: printed, or something was gathered. 2: the call is wrong. 3: nothing could be gathered; there is no
    bundle then.
    """  # noqa: D301 - click's mark for lines that stay as they are
    from firstfault.collect import commands  # noqa: PLC0415 - `--help` needs none of it

    target = commands.Target(namespace=namespace or "", selector=selector or "", context=context or "")
    if permissions:
        _write(permissions_text(commands.permissions(), form, SCHEMA), output)
        return ExitCode.OK
    if not run:
        steps = msgspec.to_builtins(commands.list_commands(target))
        text = commands.script(target)
        _write(
            text if form == "text" else json.dumps({"schema": SCHEMA, "commands": steps, "script": text}) + "\n", output
        )
        return ExitCode.OK
    return _run(target, Path(out), form, output)


def _run(target: Target, bundle: Path, form: str, output: str | None) -> int:
    from firstfault.collect.bundle import pack_bundle  # noqa: PLC0415
    from firstfault.collect.commands import run_commands  # noqa: PLC0415
    from firstfault.model.redact import redact  # noqa: PLC0415
    from firstfault.model.scratch import private_folder  # noqa: PLC0415 - needs the locks of POSIX

    if bundle.exists():
        raise InputError(f"{bundle} exists already", "name another file with --out, or move it away")
    if not bundle.parent.is_dir():  # before minutes of gathering, not after
        raise InputError(f"{bundle}: there is no folder {bundle.parent}", "make it, or name another file with --out")
    with ending_in_order(), private_folder("firstfault-collect-") as folder:
        missing = run_commands(folder, target)
        gathered = any(path.is_file() for path in folder.rglob("*"))
        # A bundle that only says what is not in it helps nobody, and stands in the way of the next one.
        count = pack_bundle(folder, bundle, missing) if gathered else 0
    missing = [msgspec.structs.replace(each, why=redact(each.why), command=redact(each.command)) for each in missing]
    if form == "json":
        report = {
            "schema": SCHEMA, "bundle": str(bundle) if count else None, "files": count,
            "missing": msgspec.to_builtins(missing),
        }  # fmt: skip
        _write(json.dumps(report) + "\n", output)
    else:
        lines = [f"{bundle}: {count} files, redacted. Next: firstfault triage {bundle}"]
        if not count:
            lines = ["nothing was gathered, so there is no bundle"]
        for each in missing:
            lines += [f"not gathered: {each.what}: {each.why}", f"    {each.command}"]
        _write("\n".join(lines if count else [*lines, _TODO]) + "\n", output)
    return ExitCode.OK if count else ExitCode.UNKNOWN


def _write(text: str, output: str | None) -> None:
    from firstfault.model.safe_text import safe_text  # noqa: PLC0415

    write_output(safe_text(text), Path(output) if output else None)
