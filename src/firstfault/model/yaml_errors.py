"""What is wrong in a YAML text, in one line that a person can act on: where, then what."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

__all__ = ["yaml_problem"]


def yaml_problem(error: yaml.YAMLError) -> str:
    """Return the parser's complaint without its name for a text that has none ("<byte string>")."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem, context = getattr(error, "problem", None), getattr(error, "context", None)
    if mark is None or not problem:
        return " ".join(str(error).replace('in "<byte string>", ', "at ").split())
    said = f"{problem} ({context})" if context else problem
    return f"line {mark.line + 1}, column {mark.column + 1}: {' '.join(said.split())}"
