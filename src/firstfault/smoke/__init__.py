"""The layered preflight that climbs the ladder between real peers (verb: smoke)."""

from __future__ import annotations

from firstfault.smoke.options import Limits, Options, from_environment
from firstfault.smoke.run import run_smoke
from firstfault.smoke.wrap import run_wrapped

__all__ = ["Limits", "Options", "from_environment", "run_smoke", "run_wrapped"]
