"""Where the result of a verb goes: standard output, or the file of `--output`."""

from __future__ import annotations

from pathlib import Path

import click

from firstfault.errors import InputError

__all__ = ["write_output"]


def write_output(text: str, output: Path | None) -> None:
    """Write a verb's result.

    Raises:
        InputError: The file cannot be written.
    """
    if not text.endswith("\n"):
        text += "\n"
    if output is None or str(output) == "-":
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror}") from error
