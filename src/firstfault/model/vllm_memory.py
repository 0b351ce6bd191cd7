"""How long a context vLLM can serve: the two walls, with vLLM's own arithmetic.

Wall 1 is the length that the model was made for (`config.json`); vLLM checks it before anything else. Wall 2 is the
memory left for the KV cache: one request of `max_model_len` tokens must fit. The formulas are those of vLLM
(vllm/config/model.py, vllm/v1/kv_cache_interface.py and vllm/v1/core/kv_cache_utils.py, 0.8 to 0.33; for the V0 engine
vllm/worker/cache_engine.py, 0.2 to 0.8), so that the numbers equal the ones that vLLM prints.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import msgspec

from firstfault.model.vllm_config import (
    DerivedLength,
    Layers,
    derived_length,
    is_number,
    kv_heads,
    kv_layers,
    not_covered,
    text_config,
)

__all__ = [
    "GIB",
    "DerivedLength",
    "Layers",
    "ServingPlan",
    "VllmFit",
    "Wall",
    "assess",
    "available_bytes",
    "derived_length",
    "kv_bytes",
    "kv_layers",
    "largest_length",
    "weights_bytes",
]

GIB = 1 << 30
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "half": 2, "float": 4, "auto": 2}
ONE_BYTE = ("fp8", "int8", "e4m3", "e5m2")

Wall = Literal["max-position", "kv-cache", "no-memory", "none"]


class ServingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the model is to be served; names as vLLM's options.

    Attributes:
        kv_cache_dtype: "auto" is the dtype of the model; anything with fp8 or int8 takes one byte.
        dtype: "auto" is that of `config.json`, with float32 cut to two bytes.
        max_num_batched_tokens: Only matters to models with sliding windows.
        windows: What layers with a sliding window cost: "kept" tokens of the window, each layer on its own (V1 up to
            0.11) · "grouped": the same in groups of equal size, padded (V1 since) · "whole": as many tokens as any
            other layer (V0, or the hybrid cache manager off).
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    kv_cache_dtype: str = "auto"
    dtype: str = "auto"
    block_size: int = 16
    max_num_batched_tokens: int = 8192
    windows: Literal["kept", "grouped", "whole"] = "kept"


def kv_bytes(config: dict[str, Any], length: int, plan: ServingPlan | None = None) -> int:
    """Return the bytes of KV cache on one GPU that a request of `length` tokens needs.

    Args:
        config: The model's `config.json`.
        length: Tokens of prompt and answer together.
        plan: How it is served.
    """
    plan = plan or ServingPlan()
    size = _element_bytes(plan)
    kinds = kv_layers(config)
    group = _group_size(kinds) if plan.windows == "grouped" and len(kinds) > 1 else None
    total = 0
    for layers in kinds:
        heads = max(1, layers.heads // plan.tensor_parallel_size) if layers.split else layers.heads
        page = plan.block_size * heads * layers.values_per_head * size
        count = layers.count if group is None else math.ceil(layers.count / group) * group
        total += math.ceil(count / plan.pipeline_parallel_size) * page * _blocks(layers, length, plan)
    return total


def _group_size(kinds: list[Layers]) -> int:
    """Return how many layers share a group of the hybrid cache manager."""
    counts = [layers.count for layers in kinds]
    return max(counts) if max(counts) < 1.5 * min(counts) else min(counts)


def _blocks(layers: Layers, length: int, plan: ServingPlan) -> int:
    """Return the blocks that one layer needs."""
    if layers.window is None or plan.windows == "whole":
        return math.ceil(length / plan.block_size)
    if layers.chunked:
        return math.ceil(min(layers.window + plan.max_num_batched_tokens, length) / plan.block_size)
    # One more, because the window need not begin where a block begins.
    return math.ceil(min(layers.window - 1 + plan.max_num_batched_tokens, length) / plan.block_size) + 1


def _element_bytes(plan: ServingPlan) -> int:
    if any(name in plan.kv_cache_dtype for name in ONE_BYTE):
        return 1
    # With "auto" vLLM serves models that were saved in float32 in half precision.
    name = plan.kv_cache_dtype if plan.kv_cache_dtype != "auto" else plan.dtype
    return DTYPE_BYTES.get(name.removeprefix("torch."), 2)


def largest_length(config: dict[str, Any], available: int, upper: int, plan: ServingPlan | None = None) -> int:
    """Return the largest length up to `upper` whose KV cache fits into `available` bytes; 0 if not even one token's.

    Args:
        config: The model's `config.json`.
        available: Bytes for the KV cache on one GPU.
        upper: Where the search ends, as vLLM ends it at `max_model_len`.
        plan: How the model is served.
    """
    if kv_bytes(config, 1, plan) > available:
        return 0
    low, high = 1, max(upper, 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if kv_bytes(config, middle, plan) <= available else (low, middle - 1)
    return low


def available_bytes(total: int, utilization: float, weights: int, *, activations: int = 0, other: int = 0) -> int:
    """Return the bytes that are left for the KV cache on one GPU.

    Args:
        total: Memory of the GPU.
        utilization: `--gpu-memory-utilization`.
        weights: Weights on this GPU.
        activations: Peak of a profiling run (0.5 to 2 GiB for most models).
        other: Memory outside of PyTorch (NCCL, CUDA context) and CUDA graphs.
    """
    return int(total * utilization) - weights - activations - other


def weights_bytes(config: dict[str, Any], tensor_parallel_size: int = 1) -> int:
    """Estimate the bytes of weights on one GPU for a decoder with a gated MLP, dense or mixture of experts.

    Good to a few per cent for Llama, Qwen, Mistral, Mixtral, DeepSeek; a log that says "Model loading took" is better.
    """
    text = text_config(config)
    hidden = int(text.get("hidden_size") or 0)
    layers = int(text.get("num_hidden_layers") or 0)
    heads = int(text.get("num_attention_heads") or 1)
    head_dim = int(text.get("head_dim") or hidden // heads)
    attention = hidden * head_dim * (2 * heads + 2 * kv_heads(text, heads))
    dense = 3 * hidden * int(text.get("intermediate_size") or 4 * hidden)
    experts = _number(text, "num_local_experts", "n_routed_experts", "num_experts")
    expert = 3 * hidden * _number(text, "moe_intermediate_size", "intermediate_size")
    first_dense = int(text.get("first_k_dense_replace") or 0) if experts else layers
    mlp = first_dense * dense + (layers - first_dense) * (experts + int(text.get("n_shared_experts") or 0)) * expert
    embeddings = int(text.get("vocab_size") or 0) * hidden * (1 if text.get("tie_word_embeddings") else 2)
    return int((layers * attention + mlp + embeddings) * _weight_bytes(text) / tensor_parallel_size)


def _number(text: dict[str, Any], *keys: str) -> int:
    return next((int(text[key]) for key in keys if is_number(text.get(key))), 0)


def _weight_bytes(text: dict[str, Any]) -> float:
    """Return the bytes of one weight."""
    quantization = text.get("quantization_config")
    if isinstance(quantization, dict):
        bits = quantization.get("bits")
        if is_number(bits):
            return float(bits) / 8
        return 1.0 if "fp8" in str(quantization.get("quant_method")) else 2.0
    return 2.0


class VllmFit(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a length fits, which wall it hits, and what would fit.

    Attributes:
        wall: "max-position" (wall 1), "kv-cache" (wall 2), "no-memory" (wall 2 with nothing left at all), or "none".
        requested: `max_model_len` as asked for, or the default.
        limit: What wall 1 allows; None if not known.
        largest: The largest `max_model_len` that passes both walls as far as they are known; None if neither is.
        safe: The largest that fits whatever a log rounded off, and whichever of the formulas in question holds; None
            where `largest` is that already.
        needed: Bytes of KV cache that the request needs on one GPU; None if not known.
        available: Bytes there are.
        exact: False where the numbers were rounded by a log, or estimated.
        summary: One sentence with the numbers.
    """

    wall: Wall
    requested: int
    largest: int | None
    limit: float | None = None
    safe: int | None = None
    needed: int | None = None
    available: int | None = None
    exact: bool = True
    summary: str = ""


def assess(
    config: dict[str, Any],
    *,
    max_model_len: int | None = None,
    available: int | None = None,
    plan: ServingPlan | None = None,
    tokenizer_config: dict[str, Any] | None = None,
) -> VllmFit:
    """Say whether a model can be served at a length, in the order in which vLLM finds out.

    Args:
        config: The model's `config.json`. Where `not_covered` names a reason, only wall 1 is looked at.
        max_model_len: As `--max-model-len`; None for vLLM's default.
        available: Bytes for the KV cache on one GPU; None if not known: then only wall 1 is looked at.
        plan: How it is served.
        tokenizer_config: Its `tokenizer_config.json`, if at hand.
    """
    derived = derived_length(config, tokenizer_config)
    requested = derived.default if max_model_len is None else max_model_len
    known = derived.key != "default"  # otherwise the model's class in transformers says it, and config.json does not
    allowed = int(derived.tokens) if known else max(requested, 1)
    computable = not not_covered(config)
    fits = largest_length(config, available, max(allowed, requested), plan) if computable and available else None
    if available is not None and available <= 0:
        fits = 0
    largest = (allowed if known else None) if fits is None else min(allowed, fits)
    needed = kv_bytes(config, requested, plan) if computable else None
    wall, summary = _first_wall(config, derived, requested, (needed, available))
    if wall != "none" and largest:
        summary += f"; the largest max_model_len that fits is {largest}"
    return VllmFit(
        wall=wall,
        requested=requested,
        largest=largest,
        limit=derived.tokens if known else None,
        needed=needed,
        available=available,
        summary=summary,
    )


def _first_wall(
    config: dict[str, Any], derived: DerivedLength, requested: int, cache: tuple[int | None, int | None]
) -> tuple[Wall, str]:
    """Return the wall that a request meets first, and a sentence with the numbers."""
    needed, available = cache
    explicit = text_config(config).get("model_max_length")
    if derived.key != "default" and requested > derived.tokens and not (is_number(explicit) and requested <= explicit):
        why = f"max_model_len {requested} is above what the model allows ({derived.key} gives {derived.tokens:g})"
        return "max-position", why
    if available is not None and available <= 0:
        return "no-memory", "no memory is left for the KV cache: the weights and activations take all of it"
    if available is not None and needed is not None and needed > available:
        return "kv-cache", (
            f"one request of {requested} tokens needs {needed / GIB:.2f} GiB of KV cache on each GPU, "
            f"{available / GIB:.2f} GiB are there"
        )
    if available is None or needed is None:
        return "none", f"{requested} tokens are within what the model allows"
    return "none", f"{requested} tokens fit"
