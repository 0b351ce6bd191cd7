"""Reads the guardrails that ship with the package and fills their placeholders for one cluster."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from firstfault.errors import InputError, UsageError
from firstfault.guardrails.context import context
from firstfault.guardrails.options import Options, applies
from firstfault.guardrails.spec import Guardrail, Scenario

__all__ = ["LIBRARY_DIR", "fill", "guardrail_ids", "load_guardrails", "load_scenarios", "load_tests", "select"]

LIBRARY_DIR = Path(__file__).parent / "library"
# `$x` belongs to Terraform and to alert templates, `{{ }}` to alerts and Kyverno: ours must be neither.
_PLACEHOLDER = re.compile(r"<<([a-z_0-9]+)>>")


def fill(text: str, values: dict[str, str], where: str) -> str:
    """Replace `<<name>>` by its value. A value of several lines keeps the indentation of its placeholder.

    Args:
        text: Template.
        values: Values by name (`context`).
        where: Name of the template, for the message.

    Raises:
        InputError: A placeholder has no value.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in values:
            raise InputError(f"{where}: no value is called {match[1]!r}", "names stand in guardrails/context.py")
        line_start = text.rfind("\n", 0, match.start()) + 1
        indent = re.match(r"[ ]*", text[line_start:])
        assert indent
        return values[match[1]].replace("\n", "\n" + indent[0])

    return _PLACEHOLDER.sub(value, text)


@cache
def guardrail_ids() -> tuple[str, ...]:
    """Return the ids of all guardrails, sorted: the names of their folders."""
    return tuple(sorted(path.parent.name for path in LIBRARY_DIR.glob("*/guardrail.yaml")))


def load_guardrails(options: Options, *, everything: bool = False) -> list[Guardrail]:
    """Return the guardrails that apply to the cluster, sorted by id, with their placeholders filled.

    Args:
        options: What the cluster has.
        everything: Leave out nothing, whatever the cluster has (used by the tests).

    Raises:
        InputError: A file of the library is not a guardrail; the message names the file and the field.
    """
    values = context(options)
    loaded = [_load(name, values) for name in guardrail_ids()]
    if everything:
        return loaded
    kept = [g for g in loaded if applies(g.when, options)]
    return [
        msgspec.structs.replace(
            g,
            alerts=[a for a in g.alerts if applies(a.when, options)],
            files=[f for f in g.files if applies(f.when, options)],
        )
        for g in kept
    ]


def load_scenarios(options: Options) -> list[Scenario]:
    """Return the scenarios C1 to C7."""
    path = LIBRARY_DIR / "scenarios.yaml"
    return msgspec.convert(_read(path, context(options)), list[Scenario])


def load_tests(name: str, options: Options) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the tests of a guardrail's alerts: {alert: {"fires": [...], "quiet": [...]}}; empty when it has none."""
    path = LIBRARY_DIR / name / "test.yaml"
    if not path.exists():
        return {}
    # promtool writes "0x40" for forty zeros, which YAML reads as 64: every scalar stays text.
    text = fill(path.read_text(encoding="utf-8"), context(options), str(path))
    return yaml.load(text, Loader=yaml.CBaseLoader) or {}  # noqa: S506 - builds text, lists and mappings only


def select(guardrails: list[Guardrail], names: list[str]) -> list[Guardrail]:
    """Return the guardrails that were asked for, by id or by checklist item.

    Raises:
        UsageError: A name is neither.
    """
    known = set(guardrail_ids())
    items = {item for g in guardrails for item in g.serves}
    for name in names:
        if name not in known and name.upper() not in items and not re.fullmatch(r"(?i)[BC]\d+", name):
            raise UsageError(f"no guardrail is called {name!r}", f"ids: {', '.join(sorted(known))}")
    wanted = {name.upper() for name in names}
    return [g for g in guardrails if g.id in names or wanted & set(g.serves)]


def _load(name: str, values: dict[str, str]) -> Guardrail:
    path = LIBRARY_DIR / name / "guardrail.yaml"
    try:
        loaded = msgspec.convert(_read(path, values), Guardrail)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: not a guardrail: {error}") from error
    if loaded.id != name:
        raise InputError(f"{path}: its id is {loaded.id!r}", f"it must be the name of its folder, {name!r}")
    return loaded


def _read(path: Path, values: dict[str, str]) -> Any:
    return yaml.load(fill(path.read_text(encoding="utf-8"), values, str(path)), Loader=yaml.CSafeLoader)
