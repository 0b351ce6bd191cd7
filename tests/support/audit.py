"""Runs the verb `audit` in a folder."""

from __future__ import annotations

import contextlib

from click.testing import CliRunner

from firstfault.cli.audit import audit


def audit_cli(folder, *words):
    """Return exit code and output of `firstfault audit WORDS`, run with `folder` as the working directory."""
    with contextlib.chdir(folder):
        result = CliRunner().invoke(audit, [str(word) for word in words], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.output
