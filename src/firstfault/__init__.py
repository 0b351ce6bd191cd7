"""firstfault: which layer of a GPU cluster failed first, and the lines that prove it.

The functions here are the same features as the command line, as a library. They are imported on first use, so that
`import firstfault` stays cheap: it imports nothing else, not even `typing`.
"""

from __future__ import annotations

from firstfault._version import __version__

TYPE_CHECKING = False  # type checkers take a variable of this name for true
if TYPE_CHECKING:
    from typing import Any

    from firstfault.checks import audit
    from firstfault.diagnosis import triage
    from firstfault.drills import run_drill

__all__ = ["__version__", "audit", "run_drill", "triage"]

_LAZY = {"audit": "firstfault.checks", "run_drill": "firstfault.drills", "triage": "firstfault.diagnosis"}


def __getattr__(name: str) -> Any:
    """Import a feature when it is first used."""
    import importlib  # noqa: PLC0415 - see above

    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
