"""`firstfault audit`: which holes of the checklist are open, with file, line and the change that closes each."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import click

from firstfault.checks import (
    SEVERITIES,
    Inventory,
    audit_with_inventory,
    exit_code_of,
    find_check,
    load_baseline,
    load_checks,
    load_config,
    make_baseline,
    plan_fixes,
)
from firstfault.cli.ending import ending_in_order
from firstfault.cli.output import GivenText, TargetPath, page_width, permissions_text, write_output
from firstfault.errors import ExitCode, UsageError, worst_exit_code
from firstfault.model.audit import AuditReport, Severity
from firstfault.report.audit import FORMATS, explain_check, list_checks, render_audit

__all__ = ["audit"]

_PATH = TargetPath(path_type=Path)
_OWN_MARK = re.compile(r'"schema"\s*:\s*"firstfault\.|"name"\s*:\s*"firstfault"')
_HEAD_CHARACTERS = 4096


@click.command("audit")
@click.argument("paths", nargs=-1, type=_PATH)
@click.option("--check", "checks", multiple=True, metavar="ID", help="Run only this check; may be given several times.")
@click.option("--complete", is_flag=True, help="The inputs are everything there is: judge what is absent, too.")
@click.option(
    "--config", type=_PATH, help="Configuration file; default: firstfault.toml here or in the audited folder."
)
@click.option("--baseline", type=_PATH, help="Accept the findings that this file, made by --write-baseline, lists.")
@click.option("--write-baseline", type=_PATH, help="Write a file that accepts every open finding.")
@click.option("--reason", default="", help="With --write-baseline: why they are accepted.")
@click.option(
    "--until",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Last day on which the new baseline holds: YYYY-MM-DD.",
)
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default="low",
    show_default=True,
    help="Exit 1 only for findings of at least this severity.",
)
@click.option("--unknown-ok", is_flag=True, help="Exit 0 when some results are unknown and none fails.")
@click.option("--fix", is_flag=True, help="Show the changes that close what can be closed safely, as a diff.")
@click.option("--yes", is_flag=True, help="With --fix: write the changes.")
@click.option("--explain", metavar="CHECK", help="Show one check: why, the trap, the fix, a bad and a good example.")
@click.option("--live", is_flag=True, help="Read the cluster's objects and the account's quotas now, and audit them.")
@click.option("--context", type=GivenText(), help="With --live: kubeconfig context.")
@click.option("--permissions", is_flag=True, help="Print the role and the IAM policy that --live needs, and stop.")
@click.option("--list-checks", "list_checks_only", is_flag=True, help="List the checks, and stop.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--output", type=TargetPath(path_type=Path), help="Write the report to this file.")
def audit(
    paths: tuple[Path, ...],
    checks: tuple[str, ...],
    complete: bool,
    config: Path | None,
    baseline: Path | None,
    write_baseline: Path | None,
    reason: str,
    until: dt.datetime | None,
    fail_on: Severity,
    unknown_ok: bool,
    fix: bool,
    yes: bool,
    explain: str | None,
    live: bool,
    context: str | None,
    permissions: bool,
    list_checks_only: bool,
    form: str,
    output: Path | None,
) -> int:
    """Find the open holes of the five-layer checklist in Terraform, plans, manifests, rules and policies.

    PATHS are files and folders, in any mixture; "-" is standard input (`kubectl kustomize . | firstfault audit -`).
    Nothing of the inputs is executed and nothing is fetched.

    \b
      firstfault audit terraform/ manifests/
      firstfault audit --explain CHECK      why a finding matters, and the fix
      firstfault audit terraform/ --fix     what can be closed safely, as diff

    Exit code 0: no open finding. 1: findings. 2: an input cannot be read (the others are audited all the same), or the
    call is wrong. 3: nothing fails, and some results are unknown.
    """  # noqa: D301 - click's mark for lines that stay as they are
    if explain or list_checks_only:
        if form not in {"text", "json"}:
            raise UsageError(f"--format {form} is for reports on inputs", "the checks themselves are text or json")
        text = explain_check(find_check(explain), form) if explain else list_checks(load_checks().values(), form)
        write_output(text, output)
        return int(ExitCode.OK)
    if permissions:
        from firstfault.collect import configuration_permissions  # noqa: PLC0415 - imports the Kubernetes client

        write_output(permissions_text(configuration_permissions(), form, "firstfault.audit-permissions/1"), output)
        return int(ExitCode.OK)
    _refuse_stray(yes=yes, fix=fix, context=context, live=live)
    if live:
        if paths or fix or write_baseline:
            raise UsageError("--live audits the cluster alone", "audit files in a call of their own")
        return _live(context, checks, config, baseline, fail_on, form, output, unknown_ok=unknown_ok)
    if not paths:
        raise UsageError("nothing to audit", "name files or folders: `firstfault audit terraform/ manifests/`")
    if write_baseline and not reason:
        raise UsageError("a baseline needs a reason", 'add --reason "why these are accepted for now"')
    report, inventory = audit_with_inventory(
        paths,
        checks=checks,
        config=load_config(config, near=[path for path in paths if path.is_dir()]),
        baseline=load_baseline(baseline) if baseline else [],
        complete=complete,
    )
    _spare_inputs(inventory, "--output", output)
    _spare_inputs(inventory, "--write-baseline", write_baseline)
    if fix:
        return _fix(report, inventory, output, write=yes)
    if write_baseline:
        return _write_baseline(report, write_baseline, reason, until.date() if until else None)
    write_output(render_audit(report, inventory.texts, form, width=page_width(output)), output)
    return int(exit_code_of(report, fail_on=fail_on, unknown_ok=unknown_ok))


def _refuse_stray(*, yes: bool, fix: bool, context: str | None, live: bool) -> None:
    """Refuse options that say nothing without another one: whoever gave them meant more than would be done.

    Raises:
        UsageError: Names both.
    """
    if yes and not fix:
        raise UsageError("--yes belongs to --fix, and nothing was to be changed", "add --fix, or leave --yes out")
    if context and not live:
        raise UsageError("--context belongs to --live", "add --live, or leave --context out")


def _spare_inputs(inventory: Inventory, option: str, output: Path | None) -> None:
    """Refuse to write a report over what was audited; a report of an earlier run may lie there and be written anew.

    Raises:
        UsageError: The output is one of the inputs.
    """
    if output is None or not output.is_file():
        return
    for path, text in inventory.texts.items():
        audited = Path(path)
        if audited.exists() and output.samefile(audited) and not _OWN_MARK.search(text[:_HEAD_CHARACTERS]):
            raise UsageError(f"{option} {output} is one of the inputs", "name another file")


def _live(
    context: str | None,
    checks: tuple[str, ...],
    config: Path | None,
    baseline: Path | None,
    fail_on: Severity,
    form: str,
    output: Path | None,
    *,
    unknown_ok: bool,
) -> int:
    """Gather the cluster's configuration into a private folder, audit it as everything there is, delete it."""
    from firstfault.collect import gather_configuration  # noqa: PLC0415 - imports the Kubernetes client
    from firstfault.model.scratch import private_folder  # noqa: PLC0415 - needs the locks of POSIX

    with ending_in_order(), private_folder("firstfault-audit-") as folder:
        missing = gather_configuration(folder, context=context)
        # What could not be read may hold what seems to be absent: then absence is not judged.
        report, inventory = audit_with_inventory(
            [folder],
            checks=checks,
            config=load_config(config, near=[]),
            baseline=load_baseline(baseline) if baseline else [],
            complete=not missing,
        )
        write_output(render_audit(report, inventory.texts, form, width=page_width(output)), output)
    for each in missing:
        click.echo(f"not read: {each.what}: {each.why}\n    {each.command}", err=True)
    code = exit_code_of(report, fail_on=fail_on, unknown_ok=unknown_ok)
    return int(worst_exit_code(code, *([ExitCode.UNKNOWN] if missing and not unknown_ok else [])))


def _fix(report: AuditReport, inventory: Inventory, output: Path | None, *, write: bool) -> int:
    """Show the diff, write it when asked, and say what is left to do by hand; end like an audit afterwards."""
    plan = plan_fixes(report, inventory)
    write_output(plan.diff or "nothing can be changed safely by itself", output)
    for finding, why in plan.refused:
        click.echo(f"not changed: {finding.check} at {finding.path}:{finding.line}: {why}", err=True)
    left = report.summary.failed - len(plan.fixed)
    if write:
        for path, text in plan.texts.items():
            write_output(text, Path(path))
    done = "closed" if write else "would be closed (add --yes to write)"
    click.echo(f"{len(plan.fixed)} {done}, {left} left", err=True)
    return int(ExitCode.FINDING if left or (plan.fixed and not write) else ExitCode.OK)


def _write_baseline(report: AuditReport, path: Path, reason: str, until: dt.date | None) -> int:
    """Write the baseline file, say what it accepts, and end like an audit without findings."""
    write_output(make_baseline(report, reason, until).decode(), path)
    accepted = report.summary.failed + report.summary.unknown
    click.echo(f"{path}: accepts {accepted} open findings; from now on audit with --baseline {path}")
    return int(ExitCode.USAGE if report.problems else ExitCode.OK)
