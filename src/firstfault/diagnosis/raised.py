"""What an inference server does not say of itself: whose exception it is, and that its workers hang.

Rules in the sense of `derive`: they look at the facts and return observations that cite the line they rest on.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from firstfault.diagnosis.derived import derived
from firstfault.model import Observation, Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.diagnosis.facts import Facts

__all__ = ["RAISED_RULES"]

_CAUSE = "workload.vllm.other"
_ANY_EXCEPTION = "workload.rank.exception/traceback-final-line"
# Frames stand right above the exception; lines of other processes come between them.
_ABOVE = 24
_MINUTES_OF_SILENCE = 3


def _raised_inside_vllm(facts: Facts) -> list[Observation]:
    """An exception of no card's own, with frames of vLLM right above it: vLLM failed, not the user's program.

    A server that answers afterwards refused one request.
    """
    frames: dict[str, list[int]] = {}
    for item in facts.signals.get("vllm.frame", ()):
        frames.setdefault(item.source, []).append(item.order or 0)
    served: dict[str, int] = {}
    for item in facts.signals.get("vllm.serving", ()):
        served[item.source] = item.order or 0
    for item in facts.faults:
        went_on = served.get(item.source, 0) > (item.order or 0)
        if item.signature == _ANY_EXCEPTION and not went_on and _is_right_below(item, frames.get(item.source, [])):
            return [derived(item, _CAUSE, "raised-inside", 0.6)]
    return []


def _is_right_below(item: Observation, lines: list[int]) -> bool:
    line = item.order or 0
    before = bisect_left(lines, line) - 1
    return before >= 0 and line - lines[before] <= _ABOVE


def _cut_short_inside_vllm(facts: Facts) -> list[Observation]:
    """Frames of vLLM without the line that names the exception, and no line that names any fault."""
    frames = facts.signals.get("vllm.frame")
    if not frames or facts.has("vllm.serving") or any(item.role is Role.ROOT for item in facts.faults):
        return []
    return [derived(frames[-1], _CAUSE, "traceback-cut-short", 0.3)]


def _workers_do_not_answer(facts: Facts) -> list[Observation]:
    """The engine waits for its workers minute after minute, and nothing comes after: they hang.

    Once or twice is what loading and compiling look like, once what the first request of its size does.
    """
    waits = facts.signals.get("vllm.broadcast-wait", [])
    last = {item.source: item.order or 0 for item in waits}
    alive = any(
        (item.order or 0) > last.get(item.source, 0) and item.source in last
        for name in ("vllm.serving", "vllm.kv-cache", "vllm.weights")
        for item in facts.signals.get(name, ())
    )
    enough = _MINUTES_OF_SILENCE - 1 if facts.has("vllm.serving") else _MINUTES_OF_SILENCE
    if sum(item.repeats for item in waits) < enough or alive:
        return []
    return [derived(waits[0], _CAUSE, "workers-do-not-answer", 0.42)]


RAISED_RULES: tuple[Callable[[Facts], list[Observation]], ...] = (
    _raised_inside_vllm,
    _cut_short_inside_vllm,
    _workers_do_not_answer,
)
