"""What a verb says and where it goes: standard output, the file of `--output`, and messages on standard error."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from pathlib import Path
from typing import Any, TextIO

import click

from firstfault.errors import InputError
from firstfault.model.safe_text import safe_text, without_commands

__all__ = ["GivenText", "Seconds", "TargetPath", "complain", "page_width", "permissions_text", "write_output"]

ADVICE = "\n  what to do: "


class TargetPath(click.Path):
    """The value of an option that names a file or folder to write. An empty one is an error, not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path.

        Raises:
            BadParameter: It is empty, or of the wrong kind.
        """
        if not os.fspath(value).strip():
            self.fail("the path is empty; is a shell variable unset?", param, ctx)
        return super().convert(value, param, ctx)


class GivenText(click.ParamType[str]):
    """Text that narrows what is looked at. An empty one is an error: it would silently mean everything."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text.

        Raises:
            BadParameter: It is empty.
        """
        if not str(value).strip():
            self.fail("the value is empty; is a shell variable unset?", param, ctx)
        return str(value)


class Seconds(click.FloatRange):
    """A number of seconds, up to a week: what is not a number, or longer than the system's clocks count, is refused.

    Args:
        positive: Refuse 0, too.
    """

    def __init__(self, *, positive: bool = False) -> None:
        super().__init__(min=0, max=7 * 86_400, min_open=positive)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds.

        Raises:
            BadParameter: No number, negative, infinite or too long.
        """
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):  # every comparison with it is false, so the range lets it pass
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return seconds


def write_output(text: str, output: Path | None) -> None:
    """Write a verb's result. A reader that went away (`| head`) is no failure: the exit code stays the verb's.

    On standard output, which may be a CI job's log, no line is a command to the CI runner; a file stays as it is.

    Raises:
        InputError: The file, or standard output, cannot be written.
    """
    if not text.endswith("\n"):
        text += "\n"
    if output is None or str(output) == "-":
        try:
            click.echo(without_commands(text), nl=False)
        except BrokenPipeError:
            _abandon(sys.stdout)
        except OSError as error:
            _abandon(sys.stdout)
            raise InputError(f"standard output: cannot be written: {error.strerror}") from error
        return
    from firstfault.model.files import replace_file  # noqa: PLC0415 - output to the terminal has no use for it

    try:
        replace_file(output, text)
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from error


def page_width(output: Path | None) -> int | None:
    """Return the columns that a text may fill: those of the terminal, from 60 to 100; None where none will show it.

    Args:
        output: The file that was asked for, if any.
    """
    if not (output is None or str(output) == "-") or sys.stdout is None or not sys.stdout.isatty():
        return None
    return max(60, min(100, shutil.get_terminal_size((100, 24)).columns))


def permissions_text(needed: dict[str, Any], form: str, schema: str) -> str:
    """Render the rights that a verb needs: a ClusterRole to apply and an IAM policy to attach, or both as JSON.

    Args:
        needed: `rbac` and `iam`, as the collectors describe them.
        form: "json", or anything else for YAML and JSON in one text.
        schema: Schema of the verb's JSON.
    """
    import yaml  # noqa: PLC0415 - most runs print none

    if form == "json":
        return json.dumps({"schema": schema, **needed}, indent=2)
    return yaml.safe_dump(needed["rbac"], sort_keys=False) + "---\n" + json.dumps(needed["iam"], indent=2)


def complain(message: str) -> None:
    """Print a message on standard error; file names in it are somebody else's text, and are neutralised and redacted.

    Args:
        message: As `FirstFaultError` writes it: what happened, then a line on what to do.
    """
    from firstfault.model.redact import redact  # noqa: PLC0415 - only a run that fails pays for it

    try:
        click.echo("firstfault: " + ADVICE.join(redact(safe_text(part)) for part in message.split(ADVICE)), err=True)
    except OSError:  # a full disk: the exit code still says what happened
        _abandon(sys.stderr)


def _abandon(stream: TextIO) -> None:
    """Point a standard stream at nothing, or the flush at the end of the process would fail once more (exit 120)."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, stream.fileno())
    os.close(descriptor)
