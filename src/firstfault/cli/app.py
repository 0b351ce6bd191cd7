"""The front door: the table of verbs, and the one place where errors become exit codes."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback
from typing import cast

import click

from firstfault._version import __version__
from firstfault.cli.ending import Ended, quitting_at_once
from firstfault.errors import ExitCode, FirstFaultError

__all__ = ["main"]

# verb -> (module:command, short help). The help stands here so that `--help` imports no verb.
VERBS: dict[str, tuple[str, str]] = {
    "triage": ("firstfault.cli.triage:triage_command", "Which layer failed first, from logs and other evidence."),
    "explain": ("firstfault.cli.explain:explain_command", "Everything known about a fault."),
    "collect": ("firstfault.cli.collect:collect", "Gather a job's evidence: the commands, or a redacted bundle."),
    "drill": ("firstfault.cli.drill:drill", "Reproduce a fault safely, diagnose it, and prove that it was put back."),
    "audit": ("firstfault.cli.audit:audit", "Find the open holes of the five-layer checklist, with file and line."),
    "guard": ("firstfault.cli.guard:guard", "Render guardrails, tell how soon they notice, lock what training needs."),
    "smoke": ("firstfault.cli.smoke:smoke", "Climb the ladder between real peers, before a job or by CronJob."),
    "schema": ("firstfault.cli.schema:schema", "The JSON Schema of a verb's report."),
}


OBJECTS_BETWEEN_COLLECTIONS = 50_000


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the verbs in the order in which a person meets them."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one verb."""
        if cmd_name not in VERBS:
            return None
        module, _, attribute = VERBS[cmd_name][0].partition(":")
        with quitting_at_once():
            imported = importlib.import_module(module)
        return cast("click.Command", getattr(imported, attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the table of verbs without importing them."""
        if VERBS:
            with formatter.section("Verbs"):
                formatter.write_dl([(verb, text) for verb, (_, text) in VERBS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="firstfault")
def app() -> None:
    """Which layer failed first, and the lines that prove it.

    \b
    Something just failed?
      firstfault triage job.log       a log, a folder, an archive; - is stdin
      firstfault triage --live -n NAMESPACE -l job-name=JOB
      firstfault explain CAUSE        what to do about the cause that it names

    Every verb has --help, --format json and --output FILE.

    Exit codes: 0 nothing wrong, 1 fault or finding, 2 usage or unreadable input, 3 could not tell, 4 restore failed.
    """  # noqa: D301 - click's mark for lines that stay as they are


def _complain(message: str) -> None:
    from firstfault.cli.output import complain  # noqa: PLC0415 - imports the model, which --help has no use for

    complain(message)


def _fill_closed_streams() -> None:
    """Give a process that was started without standard streams (`>&-`, some daemons) the null device in their place.

    Else the next file that is opened would get the number of one, and a child's output would go into it.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
            os.set_inheritable(opened, True)  # else each program that is started has none again
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")


def _nowhere() -> bool:
    """Whether the working directory was deleted, for which the system has no better words than "no such file"."""
    try:
        os.getcwd()  # noqa: PTH109 - only whether it fails
    except OSError:
        return True
    return False


def main() -> None:
    """Run the command line and exit with a code of the contract."""
    # Loading makes some ten thousand objects that stay; with Python's 700 they are searched for cycles dozens of times,
    # a sixth of the time that a small log takes.
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    _fill_closed_streams()
    at_once = False
    try:
        code = app.main(standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except Ended as end:
        _complain(f"ended by {end}; {end.done}")
        code, at_once = 128 + end.signal, True
    except click.ClickException as error:
        error.show()
        code = int(ExitCode.USAGE)
    except FirstFaultError as error:
        _complain(str(error))
        code = int(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): not our failure, and nothing is left to say.
        sys.stderr.close()
        code = int(ExitCode.OK)
    except OSError as error:
        # A full disk under `--help`, a file that vanished: exit code 1 would say "a fault was found".
        where = "the working directory was deleted" if _nowhere() else error.filename or "the system"
        _complain(f"{where}: {error.strerror or error}")
        code = int(ExitCode.USAGE)
    except Exception as error:  # noqa: BLE001 - the edge of the process: Python's own exit code 1 would say "a fault"
        traceback.print_exc()
        _complain(f"this is a defect of firstfault, not of what it was given: {type(error).__name__}: {error}")
        code = int(ExitCode.USAGE)
    if at_once:  # threads that still fetch would be waited for
        os._exit(code)
    gc.freeze()  # else the interpreter searches all that was loaded for cycles before it ends: a tenth of that time
    sys.exit(code if isinstance(code, int) else 0)
