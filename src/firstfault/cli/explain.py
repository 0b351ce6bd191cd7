"""`firstfault explain`: the card of a fault, or the list of all faults."""

from __future__ import annotations

import re
from pathlib import Path

import click

from firstfault.cli.output import TargetPath, page_width, write_output
from firstfault.errors import UsageError

__all__ = ["explain_command"]

_XID = re.compile(r"(?:xid[ .:#-]*)?(\d+)", re.IGNORECASE)


@click.command("explain", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("cause", required=False)
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", type=TargetPath(dir_okay=False, path_type=Path), help="Write to a file, not the terminal.")
def explain_command(cause: str | None, format_: str, output: Path | None) -> int:
    """Print everything known about a fault: what it looks like, how to confirm it, the fix, the prevention.

    CAUSE is an id such as network.c10d.unreachable, the beginning of one such as "network.", or an XID such as 79;
    without it, all are listed.
    """
    from firstfault.catalogue import load_catalogue  # noqa: PLC0415 - not needed for --help
    from firstfault.report import render_card, render_card_list  # noqa: PLC0415

    if cause is not None and not cause.strip():
        raise UsageError("the cause is empty", "is a shell variable unset? Leave it out to list all faults")
    cause = _id_of(cause) if cause else None
    catalogue = load_catalogue()
    matching = [card for card in catalogue.cards.values() if card.id.startswith(cause or "")]
    if cause and not (len(matching) > 1 and cause not in catalogue.cards):
        card = catalogue.resolve(cause if cause in catalogue.cards or not matching else matching[0].id)
        rendered = render_card(card, format_, width=page_width(output))
    else:
        rendered = render_card_list(matching, format_, width=page_width(output))
    write_output(rendered, output)
    return 0


def _id_of(words: str) -> str:
    """Return the id that a person means: the number of an XID, or an id as somebody shouted it."""
    words = words.strip().lower()
    xid = _XID.fullmatch(words)
    return f"driver.xid.{int(xid[1])}" if xid else words
