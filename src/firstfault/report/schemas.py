"""JSON Schemas of what the verbs print with `--format json`, made from the structs that they print.

Each is published in docs/schemas and printed by `firstfault schema NAME`. A report may get fields within a version, so
the schemas allow more than they name; a field that is there keeps its name and meaning.
"""

from __future__ import annotations

from typing import Any

import msgspec

from firstfault.catalogue import Card
from firstfault.drills import json_schema as scenario_schema
from firstfault.guardrails import BudgetReport, LockReport
from firstfault.model import TriageReport
from firstfault.model.audit import AuditReport
from firstfault.model.drill import DrillReport
from firstfault.model.smoke import SmokeReport
from firstfault.report.audit import CheckDetails, CheckList
from firstfault.report.card import CARD_SCHEMA, CardList

__all__ = ["SCHEMA_NAMES", "schema_of"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# name -> (struct, the call whose output it is)
_REPORTS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "triage": (TriageReport, "firstfault triage PATH --format json"),
    "audit": (AuditReport, "firstfault audit PATH --format json"),
    "audit-checks": (CheckList, "firstfault audit --list-checks --format json"),
    "audit-check": (CheckDetails, "firstfault audit --explain CHECK --format json"),
    "drill": (DrillReport, "firstfault drill run NAME --format json"),
    "smoke": (SmokeReport, "firstfault smoke --format json"),
    "explain": (CardList, "firstfault explain --format json"),
    "guard-lock": (LockReport, "firstfault guard lock PLAN --format json"),
    "guard-budget": (BudgetReport, "firstfault guard budget --format json"),
}
SCHEMA_NAMES = (*_REPORTS, "explain-card", "scenario")


def schema_of(name: str) -> dict[str, Any]:
    """Return a JSON Schema.

    Args:
        name: One of `SCHEMA_NAMES`: a verb whose report it describes, or scenario for the files that drills run.
    """
    if name == "scenario":
        return _object({"$schema": _DIALECT, "title": "A scenario file of firstfault drill", **scenario_schema()})
    if name == "explain-card":
        return _card()
    struct, call = _REPORTS[name]
    found = msgspec.json.schema(struct)
    own = found["$defs"][found["$ref"].rpartition("/")[2]]
    fixed = {
        field.name: field.default for field in msgspec.structs.fields(struct) if field.name in {"schema", "command"}
    }
    own["properties"] |= {name: {"const": value} for name, value in fixed.items()}
    own["required"] = [*fixed, *(key for key in own.get("required", []) if key not in fixed)]
    return _object({"$schema": _DIALECT, "title": f"What `{call}` prints", **found})


def _card() -> dict[str, Any]:
    """Return the schema of one fault's card: the struct of the catalogue's files, which are strict, and its version."""
    found = msgspec.json.schema(Card)
    for part in found["$defs"].values():
        part.pop("additionalProperties", None)
    own = found["$defs"]["Card"]
    own["properties"] = {"schema": {"const": CARD_SCHEMA}, **own["properties"]}
    own["required"] = ["schema", *own["required"]]
    return _object({"$schema": _DIALECT, "title": "What `firstfault explain CAUSE --format json` prints", **found})


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema as JSON can write it, without the defaults that only a function knows."""
    return {key: _plain(value) for key, value in schema.items() if value is not msgspec.NODEFAULT}


def _plain(schema: Any) -> Any:
    if isinstance(schema, dict):
        return _object(schema)
    if isinstance(schema, list | tuple):
        return [_plain(item) for item in schema]
    return msgspec.to_builtins(schema)
