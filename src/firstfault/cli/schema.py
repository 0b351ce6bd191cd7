"""`firstfault schema`: the JSON Schema of a verb's report, for whoever reads it with a program."""

from __future__ import annotations

import json
from pathlib import Path

import click

from firstfault.cli.output import write_output
from firstfault.errors import ExitCode, UsageError

__all__ = ["schema"]


@click.command("schema", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name", required=False)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file, not the terminal.")
def schema(name: str | None, form: str, output: Path | None) -> int:
    """Print the JSON Schema of a verb's JSON report, or of a scenario file; without NAME, list the names."""
    from firstfault.report.schemas import SCHEMA_NAMES, schema_of  # noqa: PLC0415 - imports every verb's structs

    if name is None:
        listed = json.dumps({"schema": "firstfault.schema-list/1", "names": SCHEMA_NAMES}, indent=2)
        write_output(listed if form == "json" else "\n".join(SCHEMA_NAMES), output)
        return int(ExitCode.OK)
    if name not in SCHEMA_NAMES:
        raise UsageError(f"no schema is called {name!r}", f"one of: {', '.join(SCHEMA_NAMES)}")
    write_output(json.dumps(schema_of(name), indent=2, ensure_ascii=False), output)
    return int(ExitCode.OK)
