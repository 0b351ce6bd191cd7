"""Makes a fault happen safely: scenarios, worlds, phases, journal, undo."""

from __future__ import annotations

from firstfault.drills.eks import EksOptions
from firstfault.drills.engine import Observer
from firstfault.drills.everything import Everything, LeftOut, Repeated, follow_parent, run_everything
from firstfault.drills.interrupts import Interrupted, Interrupts
from firstfault.drills.journal import runs, state_dir
from firstfault.drills.lint import lint_scenario
from firstfault.drills.recover import Recovered, recover
from firstfault.drills.run import Options, plan_drill, read_report, run_drill
from firstfault.drills.scenario import Scenario, bundled_scenarios, find_scenario, json_schema, load_scenario
from firstfault.drills.skeleton import new_scenario

__all__ = [
    "EksOptions",
    "Everything",
    "Interrupted",
    "Interrupts",
    "LeftOut",
    "Observer",
    "Options",
    "Recovered",
    "Repeated",
    "Scenario",
    "bundled_scenarios",
    "find_scenario",
    "follow_parent",
    "json_schema",
    "lint_scenario",
    "load_scenario",
    "new_scenario",
    "plan_drill",
    "read_report",
    "recover",
    "run_drill",
    "run_everything",
    "runs",
    "state_dir",
]
