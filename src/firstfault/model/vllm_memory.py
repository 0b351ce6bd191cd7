"""How long a context vLLM can serve: the two walls, with vLLM's own arithmetic.

Wall 1 is the length that the model was made for (`config.json`); vLLM checks it before anything else. Wall 2 is the
memory left for the KV cache: one request of `max_model_len` tokens must fit. The formulas are those of vLLM
(vllm/config/model.py, vllm/v1/kv_cache_interface.py and vllm/v1/core/kv_cache_utils.py, 0.8 to 0.13), so that the
numbers equal the ones that vLLM prints.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeGuard

import msgspec

__all__ = [
    "GIB",
    "DerivedLength",
    "Layers",
    "ServingPlan",
    "VllmFit",
    "assess",
    "available_bytes",
    "derived_length",
    "kv_bytes",
    "kv_layers",
    "largest_length",
    "weights_bytes",
]

GIB = 1 << 30
DEFAULT_LENGTH = 2048
LENGTH_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
# RoPE types whose `max_position_embeddings` is the scaled length already.
SCALED_ROPE = frozenset({"su", "longrope", "llama3"})
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "half": 2, "float": 4, "auto": 2}
ONE_BYTE = ("fp8", "int8", "e4m3", "e5m2")


class DerivedLength(msgspec.Struct, frozen=True):
    """The longest context that the model's own configuration allows.

    Attributes:
        tokens: As vLLM prints it: RoPE scaling makes it a float (`32768.0`).
        key: The field of `config.json` that decided.
        default: What vLLM takes when `max_model_len` is not set.
    """

    tokens: float
    key: str
    default: int


def derived_length(
    config: dict[str, Any], tokenizer_config: dict[str, Any] | None = None, *, disable_sliding_window: bool = False
) -> DerivedLength:
    """Return wall 1.

    Args:
        config: The model's `config.json`.
        tokenizer_config: Its `tokenizer_config.json`, whose `model_max_length` counts too, if at hand.
        disable_sliding_window: As `--disable-sliding-window`.
    """
    text = _text_config(config)
    found = {key: text[key] for key in LENGTH_KEYS if _is_number(text.get(key))}
    key = min(found, key=lambda name: found[name]) if found else "default"
    tokens: float = found.get(key, DEFAULT_LENGTH)
    if _is_number(text.get("model_max_length")):
        key, tokens = "model_max_length", text["model_max_length"]
    window = text.get("sliding_window")
    if disable_sliding_window and _is_number(window) and window < tokens:
        key, tokens = "sliding_window", window
    limit = (tokenizer_config or {}).get("model_max_length")
    if _is_number(limit):
        tokens = min(tokens, limit)
    rope = _rope(text)
    scaling: float = 1
    for part in rope:
        kind = part.get("rope_type", part.get("type", "default"))
        if kind not in SCALED_ROPE and "gemma3" not in str(config.get("model_type", "")):
            scaling = part.get("factor", scaling)
            if kind == "yarn" and _is_number(part.get("original_max_position_embeddings")):
                tokens = part["original_max_position_embeddings"]
    tokens *= scaling
    default = int(tokens)
    if any(part.get("rope_type", part.get("type")) == "longrope" for part in rope):
        default = int(text.get("original_max_position_embeddings", default))
    return DerivedLength(tokens, key, default)


def _text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return the part about the language model; multimodal models keep it in a field of its own."""
    for key in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(key), dict):
            return {**config, **config[key]}
    return config


def _rope(text: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the RoPE settings, one for all layers or one for each kind of layer."""
    value = text.get("rope_parameters") or text.get("rope_scaling")
    if not isinstance(value, dict):
        return []
    parts = [part for part in value.values() if isinstance(part, dict)]
    return parts or [value]


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


class Layers(msgspec.Struct, frozen=True, kw_only=True):
    """Layers of one kind and what each of them keeps for a token.

    Attributes:
        count: Layers of this kind in the whole model.
        values_per_head: Elements for each token and head: key and value of `head_dim`, or the latent of MLA.
        heads: Key-value heads of the whole model; 1 for MLA, which is not split over GPUs.
        window: Tokens that are kept at most (sliding window or chunk); None for all.
        chunked: Whether the window is a chunk (Llama 4) instead of a sliding one.
        split: Whether tensor parallelism divides the heads.
    """

    count: int
    values_per_head: int
    heads: int
    window: int | None = None
    chunked: bool = False
    split: bool = True


def kv_layers(config: dict[str, Any]) -> list[Layers]:
    """Return the layers that keep a KV cache; layers with a state of fixed size (Mamba, linear attention) are left out.

    Args:
        config: The model's `config.json`.
    """
    text = _text_config(config)
    count = int(_first(text, "num_hidden_layers", "n_layer", "num_layers", "n_layers", default=0))
    if _is_number(text.get("kv_lora_rank")):
        latent = int(text["kv_lora_rank"]) + int(text.get("qk_rope_head_dim") or 0)
        return [Layers(count=count, values_per_head=latent, heads=1, split=False)]
    attention_heads = int(_first(text, "num_attention_heads", "n_head", "n_heads", "num_heads", default=1))
    heads = _kv_heads(text, attention_heads)
    hidden = int(_first(text, "hidden_size", "n_embd", "d_model", default=0))
    head_dim = int(_first(text, "head_dim", "kv_channels", default=hidden // max(attention_heads, 1)))
    return [
        Layers(count=number, values_per_head=2 * head_dim, heads=heads, window=window, chunked=chunked)
        for number, window, chunked in _layer_kinds(text, count)
        if number
    ]


def _first(text: dict[str, Any], *keys: str, default: Any) -> Any:
    return next((text[key] for key in keys if _is_number(text.get(key))), default)


def _kv_heads(text: dict[str, Any], attention_heads: int) -> int:
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        return 1
    return int(
        _first(
            text, "num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num", default=attention_heads
        )
    )


def _layer_kinds(text: dict[str, Any], count: int) -> list[tuple[int, int | None, bool]]:
    """Return (layers, window, chunked) for each kind."""
    window = text.get("sliding_window") if text.get("use_sliding_window") is not False else None
    window = int(window) if _is_number(window) else None
    chunk = text.get("attention_chunk_size")
    types = text.get("layer_types")
    if isinstance(types, list) and types:
        sliding, chunked = types.count("sliding_attention"), types.count("chunked_attention")
        other = sum(kind in {"linear_attention", "mamba", "conv"} for kind in types)
        full = len(types) - sliding - chunked - other
        return [
            (full, None, False),
            (sliding, window, False),
            (chunked, int(chunk) if _is_number(chunk) else None, True),
        ]
    pattern = text.get("sliding_window_pattern")
    if window is not None and isinstance(pattern, int) and pattern > 1:
        full = count // pattern
        return [(full, None, False), (count - full, window, False)]
    return [(count, window, False)]


class ServingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How the model is to be served; names as vLLM's options.

    Attributes:
        kv_cache_dtype: "auto" is the dtype of the model; anything with fp8 or int8 takes one byte.
        max_num_batched_tokens: Only matters to models with sliding windows.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    kv_cache_dtype: str = "auto"
    block_size: int = 16
    max_num_batched_tokens: int = 8192


def kv_bytes(config: dict[str, Any], length: int, plan: ServingPlan | None = None) -> int:
    """Return the bytes of KV cache on one GPU that a request of `length` tokens needs.

    Args:
        config: The model's `config.json`.
        length: Tokens of prompt and answer together.
        plan: How it is served.
    """
    plan = plan or ServingPlan()
    size = _element_bytes(_text_config(config), plan.kv_cache_dtype)
    total = 0
    for layers in kv_layers(config):
        heads = max(1, layers.heads // plan.tensor_parallel_size) if layers.split else layers.heads
        page = plan.block_size * heads * layers.values_per_head * size
        total += math.ceil(layers.count / plan.pipeline_parallel_size) * page * _blocks(layers, length, plan)
    return total


def _blocks(layers: Layers, length: int, plan: ServingPlan) -> int:
    """Return the blocks that one layer needs."""
    if layers.window is None:
        return math.ceil(length / plan.block_size)
    if layers.chunked:
        return math.ceil(min(layers.window + plan.max_num_batched_tokens, length) / plan.block_size)
    # One more, because the window need not begin where a block begins.
    return math.ceil(min(layers.window - 1 + plan.max_num_batched_tokens, length) / plan.block_size) + 1


def _element_bytes(text: dict[str, Any], kv_cache_dtype: str) -> int:
    if any(name in kv_cache_dtype for name in ONE_BYTE):
        return 1
    name = kv_cache_dtype if kv_cache_dtype != "auto" else str(text.get("torch_dtype") or text.get("dtype") or "auto")
    # vLLM serves models that were saved in float32 in half precision.
    return 2 if kv_cache_dtype == "auto" else DTYPE_BYTES.get(name.removeprefix("torch."), 2)


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
    text = _text_config(config)
    hidden = int(text.get("hidden_size") or 0)
    layers = int(text.get("num_hidden_layers") or 0)
    heads = int(text.get("num_attention_heads") or 1)
    head_dim = int(text.get("head_dim") or hidden // heads)
    attention = hidden * head_dim * (2 * heads + 2 * _kv_heads(text, heads))
    dense = 3 * hidden * int(text.get("intermediate_size") or 4 * hidden)
    experts = int(_first(text, "num_local_experts", "n_routed_experts", "num_experts", default=0))
    expert = 3 * hidden * int(_first(text, "moe_intermediate_size", "intermediate_size", default=0))
    first_dense = int(text.get("first_k_dense_replace") or 0) if experts else layers
    mlp = first_dense * dense + (layers - first_dense) * (experts + int(text.get("n_shared_experts") or 0)) * expert
    embeddings = int(text.get("vocab_size") or 0) * hidden * (1 if text.get("tie_word_embeddings") else 2)
    return int((layers * attention + mlp + embeddings) * _weight_bytes(text) / tensor_parallel_size)


def _weight_bytes(text: dict[str, Any]) -> float:
    """Return the bytes of one weight."""
    quantization = text.get("quantization_config")
    if isinstance(quantization, dict):
        bits = quantization.get("bits")
        if _is_number(bits):
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
        needed: Bytes of KV cache that the request needs on one GPU; None if not known.
        available: Bytes there are.
        exact: False where the numbers were rounded by a log, or estimated.
        summary: One sentence with the numbers.
    """

    wall: Literal["max-position", "kv-cache", "no-memory", "none"]
    requested: int
    largest: int | None
    limit: float | None = None
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
        config: The model's `config.json`.
        max_model_len: As `--max-model-len`; None for vLLM's default.
        available: Bytes for the KV cache on one GPU; None if not known: then only wall 1 is looked at.
        plan: How it is served.
        tokenizer_config: Its `tokenizer_config.json`, if at hand.
    """
    derived = derived_length(config, tokenizer_config)
    requested = derived.default if max_model_len is None else max_model_len
    allowed = int(derived.tokens)
    fits = None if available is None else largest_length(config, available, max(allowed, requested), plan)
    largest = allowed if fits is None else min(allowed, fits)
    needed = kv_bytes(config, requested, plan)
    text = _text_config(config)
    explicit = text.get("model_max_length")
    if requested > derived.tokens and not (_is_number(explicit) and requested <= explicit):
        wall: Literal["max-position", "kv-cache", "no-memory", "none"] = "max-position"
        summary = f"max_model_len {requested} is above what the model allows ({derived.key} gives {derived.tokens:g})"
    elif available is not None and available <= 0:
        wall, summary = "no-memory", "no memory is left for the KV cache: the weights and activations take all of it"
    elif available is not None and needed > available:
        wall = "kv-cache"
        summary = (
            f"one request of {requested} tokens needs {needed / GIB:.2f} GiB of KV cache on each GPU, "
            f"{available / GIB:.2f} GiB are there"
        )
    else:
        wall, summary = "none", f"{requested} tokens fit"
    if wall != "none" and largest:
        summary += f"; the largest max_model_len that fits is {largest}"
    return VllmFit(
        wall=wall,
        requested=requested,
        largest=largest,
        limit=derived.tokens,
        needed=needed,
        available=available,
        summary=summary,
    )
