"""firstfault: which layer of a GPU cluster failed first, and the lines that prove it.

The functions here are the same features as the command line, as a library. They are imported on first use, so that
`import firstfault` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from firstfault._version import __version__

if TYPE_CHECKING:
    from firstfault.checks import audit
    from firstfault.diagnosis import triage
    from firstfault.drills import run_drill

__all__ = ["__version__", "audit", "run_drill", "triage"]

_LAZY = {"audit": "firstfault.checks", "run_drill": "firstfault.drills", "triage": "firstfault.diagnosis"}


def __getattr__(name: str) -> Any:
    """Import a feature when it is first used."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
