"""Changes that a check can offer: small, exact, and only where one value is plainly the right one."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["AddArgument", "Edit", "SetArgument", "SetYaml"]


class SetYaml(msgspec.Struct, frozen=True, kw_only=True):
    """Set a scalar in a YAML document; missing mappings on the way are made.

    Attributes:
        path: File.
        line: Line on which the document's object starts.
        steps: Keys and indexes below the object.
        value: Scalar to set.
    """

    path: str
    line: int
    steps: tuple[str | int, ...]
    value: Any


class SetArgument(msgspec.Struct, frozen=True, kw_only=True):
    """Replace the value of `name = …` on one line of an HCL file."""

    path: str
    line: int
    name: str
    value: str


class AddArgument(msgspec.Struct, frozen=True, kw_only=True):
    """Add `name = …` to the block or object that opens on one line of an HCL file."""

    path: str
    line: int
    name: str
    value: str


Edit = SetYaml | SetArgument | AddArgument
