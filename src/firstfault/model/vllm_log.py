"""Reads out of a vLLM log which wall a model hit, and the numbers that vLLM printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.model.vllm_memory import GIB, VllmFit

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BLOCK", "ROUNDING", "fit_from_log", "fit_from_text"]

_NUMBER = r"([\d,]+)"
# Texts: vllm/config.py and vllm/config/model.py (all versions since 0.2).
_DERIVED = re.compile(
    rf"User-specified max_model_len \({_NUMBER}\) is greater than the derived max_model_len "
    r"\((?:(\w+)=)?([\d.]+)(?: or model_max_length=(\w+))?"
)
# vllm/worker/worker.py up to 0.8 (V0 engine).
_TOKENS = re.compile(
    rf"model's max seq len \({_NUMBER}\) is larger than the maximum number of tokens that can be stored in KV cache "
    rf"\({_NUMBER}\)"
)
# vllm/v1/core/kv_cache_utils.py (V1 engine); the first versions gave no estimate.
_BYTES = re.compile(
    rf"To serve at least one request with the models?'s max seq len \({_NUMBER}\),\s+"
    r"\(?([\d.]+) GiB KV cache is needed,\s+which is larger than the available KV cache memory\s+\(([\d.]+) GiB\)"
    rf"(?:\.\s+Based on the available memory,\s+the estimated maximum model length is {_NUMBER})?"
)
_NOTHING = re.compile(r"No available memory for the cache blocks")

ROUNDING = 0.005  # GiB: logs print two decimals
BLOCK = 16


def fit_from_text(text: str) -> VllmFit | None:
    """Return the wall that a message names, or None.

    Args:
        text: One message; may be broken over lines.
    """
    if (match := _DERIVED.search(text)) is not None:
        limit = _float(match[3])
        return VllmFit(
            wall="max-position",
            requested=_int(match[1]),
            limit=limit,
            largest=int(limit),
            summary=f"max_model_len {_int(match[1])} is above what the model allows "
            f"({match[2] or 'config.json'} gives {limit:g}); the largest that passes this check is {int(limit)}",
        )
    if (match := _TOKENS.search(text)) is not None:
        requested, largest = _int(match[1]), _int(match[2])
        return VllmFit(
            wall="kv-cache",
            requested=requested,
            largest=largest,
            summary=f"the KV cache holds {largest} tokens, one request may have {requested}; "
            f"the largest max_model_len that fits is {largest}",
        )
    if (match := _BYTES.search(text)) is not None:
        return _fit_from_bytes(_int(match[1]), _float(match[2]), _float(match[3]), match[4])
    if _NOTHING.search(text) is not None:
        return VllmFit(
            wall="no-memory",
            requested=0,
            largest=0,
            summary="no memory is left for the KV cache: the weights and activations take all that vLLM may use",
        )
    return None


def _fit_from_bytes(requested: int, needed: float, available: float, estimate: str | None) -> VllmFit:
    """Return wall 2 of the V1 engine. Without vLLM's own estimate the rounded numbers give a lower bound."""
    if estimate is not None:
        largest = _int(estimate)
    else:
        share = max(available - ROUNDING, 0) / (needed + ROUNDING)
        largest = int(requested * share) // BLOCK * BLOCK
    about = "" if estimate else "about "
    return VllmFit(
        wall="kv-cache",
        requested=requested,
        largest=largest,
        needed=round(needed * GIB),
        available=round(available * GIB),
        exact=estimate is not None,
        summary=f"one request of {requested} tokens needs {needed:.2f} GiB of KV cache on each GPU, "
        f"{available:.2f} GiB are there; the largest max_model_len that fits is {about}{largest}",
    )


def fit_from_log(lines: Iterable[str]) -> VllmFit | None:
    """Return the wall that a log names last: a second start may have failed at the next wall. None if it names none.

    Args:
        lines: The log; a message may be broken over up to four lines.
    """
    found = None
    window: list[str] = []
    for line in lines:
        window = [*window[-3:], line.rstrip()]
        if "KV cache" in line or "max_model_len" in line or "cache blocks" in line or "model length is" in line:
            fit = fit_from_text(line) or fit_from_text(" ".join(window))
            # The estimate may stand on the line behind: the fuller reading replaces the first one.
            found = fit if fit is not None else found
    return found


def _float(text: str) -> float:
    return float(text[:30])  # longer ones are no number that means anything, and may be too large for a float


def _int(text: str) -> int:
    return int(text.replace(",", "")[:18] or 0)
