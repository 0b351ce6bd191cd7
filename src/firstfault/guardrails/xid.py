"""XID codes by what a rule should do about them, from the catalogue's table (catalogue/xid.yaml)."""

from __future__ import annotations

from firstfault.catalogue.xid import load_xid_table

__all__ = ["isolate", "program", "silent"]

_PROGRAM_ACTIONS = {"app", "workflow13", "workflow31"}
# These record an error that another line reports, but a gauge may have lost that line: worth a look, unlike the others.
_FOLLOW_UPS = {63, 154, 156}


def isolate() -> list[int]:
    """Return the codes on which a node is taken out at once."""
    return sorted(load_xid_table().policy.cordon)


def program() -> list[int]:
    """Return the codes that a bug of the program on the GPU causes; hardware only when they come back."""
    table = load_xid_table()
    found = {code for code, entry in table.codes.items() if entry.now in _PROGRAM_ACTIONS}
    return sorted((found | set(table.policy.application_first)) - set(table.policy.cordon))


def silent() -> list[int]:
    """Return the codes that ask for nothing: notices, test messages, and what every job's end leaves behind."""
    table = load_xid_table()
    ignored = {code for code, entry in table.codes.items() if entry.now == "ignore"}
    quiet = ignored | set(table.policy.informational) | set(table.policy.aftermath)
    return sorted(quiet - set(program()) - set(table.policy.cordon) - _FOLLOW_UPS)
