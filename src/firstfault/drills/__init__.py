"""Makes a fault happen safely: scenarios, worlds, phases, journal, undo."""

from __future__ import annotations

from firstfault.drills.run import Options, plan_drill, run_drill

__all__ = ["Options", "plan_drill", "run_drill"]
