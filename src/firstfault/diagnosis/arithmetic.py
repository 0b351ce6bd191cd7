"""Puts numbers into a verdict about vLLM: which wall was hit, and the largest `max-model-len` that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.diagnosis.serving import WALLS
from firstfault.model import Missing
from firstfault.model.vllm_log import fit_from_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.diagnosis.candidates import Candidate
    from firstfault.diagnosis.walls import Joined
    from firstfault.model.vllm_memory import VllmFit

__all__ = ["fit_advice", "missing_numbers", "vllm_fit"]


def vllm_fit(candidate: Candidate, joined: Iterable[Joined] = ()) -> VllmFit | None:
    """Return what the lines of a candidate say about vLLM's walls, with the model's config.json where it helps.

    Args:
        candidate: Any candidate; None comes back for causes that are not about the length of the context.
        joined: The servers of the input.
    """
    if candidate.cause not in WALLS:
        return None
    sources = {item.source for item in candidate.roots}
    for one in joined:
        if one.server.source in sources and one.fit is not None and one.fit.wall != "none":
            return one.fit
    fits = [fit for item in candidate.roots if (fit := fit_from_text(item.text)) is not None]
    return next((fit for fit in reversed(fits) if fit.wall != "no-memory"), fits[-1] if fits else None)


def fit_advice(fit: VllmFit) -> list[str]:
    """Return what to change, with the number; nothing if neither a length nor memory would help."""
    short = (fit.needed - fit.available) / (1 << 30) if fit.needed and fit.available is not None else 0.0
    if not fit.largest:
        if short <= 0:
            return []
        return [f"Find {short:.2f} GiB more for the KV cache on each GPU: no length fits into what is left."]
    about = ""
    if fit.safe is not None and fit.safe != fit.largest:
        about = f" ({fit.safe} if vLLM still refuses: the log rounds its figures)" if fit.safe else ""
    elif not fit.exact:
        about = " (a safe lower bound: the log rounds to two decimals)"
    advice = f"Set `--max-model-len {fit.largest}`{about}"
    if fit.wall == "kv-cache" and short > 0:
        advice += f", or find {short:.2f} GiB more for the KV cache on each GPU"
    return [f"{advice}."]


def missing_numbers(joined: Iterable[Joined]) -> list[Missing]:
    """Return what would let the largest length be computed, for servers that hit a wall and do not say it.

    Args:
        joined: The servers of the input.
    """
    return [
        Missing(
            what=f"the largest --max-model-len for {one.server.model or one.server.source}",
            why=one.reason,
            command=_command(one),
        )
        for one in joined
        if one.reason and not (one.fit is not None and one.fit.largest and one.fit.exact)
    ]


def _command(one: Joined) -> str:
    if "config.json" in one.reason and one.config is None and "printed" not in one.reason:
        model = one.server.model or "MODEL"
        if model.startswith("/"):
            return f"kubectl exec POD -- cat {model.rstrip('/')}/config.json > config.json"
        return f"curl -sSfLo config.json https://huggingface.co/{model}/resolve/main/config.json"
    return "grep -E 'non-default args|Initializing .* LLM engine|KV cache|model length' vllm.log"
