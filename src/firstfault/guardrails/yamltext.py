"""YAML as a person would write it: keys in their given order, text of several lines as blocks, no anchors."""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["dump"]


class _Dumper(yaml.SafeDumper):
    """Writes lists indented below their key, and never an alias."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML calls it so
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML calls it so
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump(*documents: Any) -> str:
    """Return documents as YAML text."""
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=4096,
        explicit_start=len(documents) > 1,
    )
