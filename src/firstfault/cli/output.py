"""Where the result of a verb goes: standard output, or the file of `--output`."""

from __future__ import annotations

from pathlib import Path

import click

from firstfault.errors import InputError
from firstfault.model.safe_text import without_commands

__all__ = ["write_output"]


def write_output(text: str, output: Path | None) -> None:
    """Write a verb's result.

    On standard output, which may be a CI job's log, no line is a command to the CI runner; a file stays as it is.

    Raises:
        InputError: The file cannot be written.
    """
    if not text.endswith("\n"):
        text += "\n"
    if output is None or str(output) == "-":
        click.echo(without_commands(text), nl=False)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from error
