"""What several lines about alerts, policies and settings say together: what should have told somebody, and could not.

Rules in the sense of `derive`. They speak up only where nothing better is known; a real fault is stronger.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.diagnosis.derived import derived
from firstfault.model import Observation, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.diagnosis.facts import Facts

__all__ = ["WATCHING_RULES"]

_SERVING = re.compile(r"vllm|\btgi\b|triton|sglang|inference|\bllm", re.IGNORECASE)
_OBJECTIVE = re.compile(
    r"histogram_quantile|_bucket\b|latency|ttft|tpot|time_to_first|per_output_token|tokens_total|step_time|iteration"
    r"|busbw|bandwidth|throughput|_duration_seconds|slo\b|burn",
    re.IGNORECASE,
)
# An answer stands so many lines behind its question at most.
NEAR = 2
_SILENT = {"WARN", "VERSION", "NONE", "ABORT", "0"}


def _no_objective(facts: Facts) -> list[Observation]:
    """Rules watch a server, and none of them looks at how fast it answers."""
    rules = facts.signals.get("monitoring.alert", [])
    serving = [item for item in rules if _SERVING.search(item.text)]
    if not serving or any(_OBJECTIVE.search(item.fields.get("expr", "")) for item in rules):
        return []
    return [derived(serving[0], "observability.slo.missing", "rules-without-an-objective", 0.42)]


def _answered_with_nothing(facts: Facts, question: str) -> Observation | None:
    """Return the first question of that signal which the next lines answer with nothing."""
    nothing = [(item.source, item.order) for item in facts.signals.get("monitoring.nothing-found", ()) if item.order]
    for asked in facts.signals.get(question, ()):
        if asked.order and any(name == asked.source and 0 < at - asked.order <= NEAR for name, at in nothing):
            return asked
    return None


def _no_smoke_job(facts: Facts) -> list[Observation]:
    """Somebody asked for CronJobs and there were none."""
    asked = _answered_with_nothing(facts, "monitoring.no-cronjobs")
    return [derived(asked, "observability.smoke.missing", "no-cronjobs", 0.45)] if asked else []


def _no_exporter(facts: Facts) -> list[Observation]:
    """Somebody asked for the exporter or for its metrics and there were none."""
    asked = _answered_with_nothing(facts, "monitoring.asks-exporter")
    return [derived(asked, "observability.exporter.missing", "asked-in-vain", 0.45)] if asked else []


def _ready_and_nothing_to_schedule(facts: Facts) -> list[Observation]:
    """The operator says ready while its nodes offer no GPU, and no component says why."""
    ready = facts.first("clusterpolicy.ready")
    driver = {item.cause for item in facts.faults if item.cause.startswith("driver.") and item.role is Role.ROOT}
    if ready is None or not driver or driver - {"driver.plugin.allocatable-zero"}:
        return []
    return [derived(ready, "observability.clusterpolicy.ready-trap", "ready-with-no-gpus", 0.62)]


def _nccl_was_told_to_be_silent(facts: Facts) -> list[Observation]:
    """NCCL failed, its reason would have been a line of NCCL, and the level that was set printed none."""
    levels = {item.fields.get("value", "").upper() for item in facts.signals.get("nccl.debug", ())}
    asks = [item for item in facts.faults if item.signature == "observability.nccl.debug-unset/asks-for-debug"]
    spoke = facts.has("nccl.speaks") or any("NCCL WARN" in item.text for item in facts.faults)
    if not asks or spoke or not levels or levels - _SILENT:
        return []
    return [derived(asks[0], "observability.nccl.debug-unset", "error-without-a-line", 0.45)]


WATCHING_RULES: tuple[Callable[[Facts], list[Observation]], ...] = (
    _no_objective,
    _no_smoke_job,
    _no_exporter,
    _ready_and_nothing_to_schedule,
    _nccl_was_told_to_be_silent,
)
