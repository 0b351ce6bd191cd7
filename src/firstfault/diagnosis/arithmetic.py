"""Puts numbers into a verdict about vLLM: which wall was hit, and the largest `max-model-len` that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model.vllm_log import fit_from_text

if TYPE_CHECKING:
    from firstfault.diagnosis.candidates import Candidate
    from firstfault.model.vllm_memory import VllmFit

__all__ = ["fit_advice", "vllm_fit"]

CAUSES = frozenset({"workload.vllm.kv-cache", "workload.vllm.max-model-len"})


def vllm_fit(candidate: Candidate) -> VllmFit | None:
    """Return what the lines of a candidate say about vLLM's walls; the last one counts, it is of the last start.

    Args:
        candidate: Any candidate; None comes back for causes that are not about the length of the context.
    """
    if candidate.cause not in CAUSES:
        return None
    fits = [fit for item in candidate.roots if (fit := fit_from_text(item.text)) is not None]
    return next((fit for fit in reversed(fits) if fit.wall != "no-memory"), fits[-1] if fits else None)


def fit_advice(fit: VllmFit) -> list[str]:
    """Return what to change, with the number; nothing if no length would help."""
    if not fit.largest:
        return []
    about = "" if fit.exact else " (a safe lower bound: the log rounds to two decimals)"
    advice = f"Set `--max-model-len {fit.largest}`{about}"
    if fit.wall == "kv-cache" and fit.needed and fit.available:
        short = (fit.needed - fit.available) / (1 << 30)
        advice += f", or find {short:.2f} GiB more for the KV cache on each GPU"
    return [f"{advice}."]
