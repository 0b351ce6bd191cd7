"""Files which no template can write, because they depend on several options at once.

A builder takes its guardrail and the options and returns (path, component, text) for each file.
"""

from __future__ import annotations

from collections.abc import Callable

from firstfault.guardrails.admission import admission
from firstfault.guardrails.options import Options
from firstfault.guardrails.spec import Guardrail

__all__ = ["BUILDERS", "Builder"]

Builder = Callable[[Guardrail, Options], list[tuple[str, str, str]]]

BUILDERS: dict[str, Builder] = {"admission": admission}
