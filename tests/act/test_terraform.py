"""How values reach terraform."""

from __future__ import annotations

import pytest

from firstfault.act.terraform import hcl


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "true"),
        (3, "3"),
        (None, "null"),
        ('a "quoted" \\ word', r'"a \"quoted\" \\ word"'),
        ("${file(1)} %{if x}", '"$${file(1)} %%{if x}"'),
        (["a", {"b": 1}], '["a", {"b": 1}]'),
    ],
)
def test_values_are_literals(value, written):
    """No string is a template that terraform would evaluate."""
    assert hcl(value) == written
