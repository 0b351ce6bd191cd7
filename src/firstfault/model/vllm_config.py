"""What a model's `config.json` says about its context: the length it was made for, and what its layers keep per token.

Read as vLLM reads it (vllm/config/model.py, vllm/transformers_utils/model_arch_config_convertor.py, the models' own
files; 0.4 to 0.33). A configuration whose cache follows other rules than these is named by `not_covered`, so that
nobody computes a number that vLLM would not.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, TypeGuard

import msgspec

__all__ = [
    "DerivedLength",
    "Layers",
    "config_fields",
    "config_of",
    "derived_length",
    "is_mla",
    "is_number",
    "kv_heads",
    "kv_layers",
    "not_covered",
    "text_config",
    "tokens_of",
]

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)([kKmM]?)")
_FACTORS = {"": 1, "k": 1000, "m": 1000**2, "K": 1024, "M": 1024**2}

DEFAULT_LENGTH = 2048
LENGTH_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
LAYER_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HEAD_KEYS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEAD_KEYS = ("num_key_value_heads", "n_head_kv", "num_kv_heads", "multi_query_group_num")
HIDDEN_KEYS = ("hidden_size", "n_embd", "d_model")
# RoPE types whose `max_position_embeddings` is the scaled length already.
SCALED_ROPE = frozenset({"su", "longrope", "llama3"})
# Models of which vLLM keeps the latent of MLA; others with the same fields keep whole heads.
MLA_MODELS = frozenset({
    "axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2", "pangu_ultra_moe", "deepseek_vl_v2", "kimi_vl",
})  # fmt: skip
KNOWN_LAYERS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
# Fields that only models have whose layers (some of them) keep something else than keys and values of every token.
STATE_KEYS = (
    "mamba_d_state", "mamba_d_conv", "mamba_d_ssm", "ssm_state_size", "ssm_cfg", "state_size", "layers_block_type",
    "hybrid_override_pattern", "attn_layer_period", "attn_layer_indices", "full_attention_interval", "attn_type_list",
    "linear_attn_config", "linear_num_value_heads", "conv_L_cache", "block_types", "rwkv_hidden_size",
)  # fmt: skip
# Fields of models whose layers differ in size, or share their cache.
UNEVEN_KEYS = (
    "block_configs", "num_kv_shared_layers", "global_head_dim", "num_global_key_value_heads", "attention_other_setting",
    "swa_num_key_value_heads", "swa_head_dim", "attn_config", "per_layer_config",
)  # fmt: skip
SPARSE_KEYS = ("index_topk", "index_head_dim", "compress_ratios", "indexer_types")
_PLAIN = (
    *LENGTH_KEYS, *LAYER_KEYS, *HEAD_KEYS, *KV_HEAD_KEYS, *HIDDEN_KEYS, "head_dim", "kv_channels", "multi_query",
    "new_decoder_architecture", "kv_lora_rank", "qk_rope_head_dim", "sliding_window", "use_sliding_window",
    "sliding_window_pattern", "attention_chunk_size", "original_max_position_embeddings", "intermediate_size",
    "moe_intermediate_size", "num_local_experts", "n_routed_experts", "num_experts", "n_shared_experts",
    "first_k_dense_replace", "vocab_size", "tie_word_embeddings", "torch_dtype", "dtype", "_name_or_path",
)  # fmt: skip


class DerivedLength(msgspec.Struct, frozen=True):
    """The longest context that the model's own configuration allows.

    Attributes:
        tokens: As vLLM prints it: RoPE scaling makes it a float (`32768.0`).
        key: The field of `config.json` that decided; "default" where none of them is written, and vLLM asks the
            model's class in transformers instead.
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
    text = text_config(config)
    found = {key: text[key] for key in LENGTH_KEYS if is_number(text.get(key))}
    key = min(found, key=lambda name: found[name]) if found else "default"
    tokens: float = found.get(key, DEFAULT_LENGTH)
    if is_number(text.get("model_max_length")):
        key, tokens = "model_max_length", text["model_max_length"]
    window = text.get("sliding_window")
    if disable_sliding_window and is_number(window) and window < tokens:
        key, tokens = "sliding_window", window
    limit = (tokenizer_config or {}).get("model_max_length")
    if is_number(limit):
        tokens = min(tokens, limit)
    rope = _rope(text)
    scaling: float = 1
    for part in rope:
        kind = part.get("rope_type", part.get("type", "default"))
        if kind not in SCALED_ROPE and "gemma3" not in str(config.get("model_type", "")):
            factor = part.get("factor", scaling)
            scaling = factor if is_number(factor) else scaling
            if kind == "yarn" and is_number(part.get("original_max_position_embeddings")):
                tokens = part["original_max_position_embeddings"]
    tokens *= scaling
    default = int(tokens)
    original = text.get("original_max_position_embeddings")
    if any(part.get("rope_type", part.get("type")) == "longrope" for part in rope) and is_number(original):
        default = int(original)
    return DerivedLength(tokens, key, default)


def text_config(config: dict[str, Any]) -> dict[str, Any]:
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


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a field holds a positive number: `null`, 0 and true are as good as absent."""
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


def is_mla(config: dict[str, Any]) -> bool:
    """Whether vLLM keeps one latent for each token instead of keys and values (DeepSeek's multi-head latent attention).

    Args:
        config: The model's `config.json`. One without a `model_type` is taken at its word.
    """
    text = text_config(config)
    kinds = {str(text.get("model_type", "")), str(config.get("model_type", ""))} - {""}
    return is_number(text.get("kv_lora_rank")) and (not kinds or bool(kinds & MLA_MODELS))


def kv_layers(config: dict[str, Any]) -> list[Layers]:
    """Return the layers that keep a KV cache; layers with a state of fixed size (Mamba, linear attention) are left out.

    Args:
        config: The model's `config.json`.
    """
    text = text_config(config)
    count = int(_first(text, *LAYER_KEYS, default=0))
    if is_mla(config):
        latent = int(text["kv_lora_rank"]) + int(text.get("qk_rope_head_dim") or 0)
        return [Layers(count=count, values_per_head=latent, heads=1, split=False)]
    attention_heads = int(_first(text, *HEAD_KEYS, default=1))
    heads = kv_heads(text, attention_heads)
    hidden = int(_first(text, *HIDDEN_KEYS, default=0))
    head_dim = int(_first(text, "head_dim", "kv_channels", default=hidden // max(attention_heads, 1)))
    return [
        Layers(count=number, values_per_head=2 * head_dim, heads=heads, window=window, chunked=chunked)
        for number, window, chunked in _layer_kinds(text, count)
        if number
    ]


def _first(text: dict[str, Any], *keys: str, default: Any) -> Any:
    return next((text[key] for key in keys if is_number(text.get(key))), default)


def kv_heads(text: dict[str, Any], attention_heads: int) -> int:
    """Return the key-value heads of the whole model: fewer than the attention heads with grouped queries."""
    if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
        return 1
    return int(_first(text, *KV_HEAD_KEYS, default=attention_heads))


def _layer_kinds(text: dict[str, Any], count: int) -> list[tuple[int, int | None, bool]]:
    """Return (layers, window, chunked) for each kind."""
    window = text.get("sliding_window") if text.get("use_sliding_window") is not False else None
    window = int(window) if is_number(window) else None
    chunk = text.get("attention_chunk_size")
    types = text.get("layer_types")
    if isinstance(types, list) and types:
        sliding, chunked = types.count("sliding_attention"), types.count("chunked_attention")
        other = sum(kind not in KNOWN_LAYERS for kind in types)
        full = len(types) - sliding - chunked - other
        return [
            (full, None, False),
            (sliding, window, False),
            (chunked, int(chunk) if is_number(chunk) else None, True),
        ]
    pattern = text.get("sliding_window_pattern")
    if text.get("model_type") == "gemma2":
        pattern = 2  # every other layer, which its configuration does not say
    if window is not None and isinstance(pattern, int) and pattern > 1:
        full = count // pattern
        return [(full, None, False), (count - full, window, False)]
    return [(count, window, False)]


def not_covered(config: dict[str, Any]) -> str:
    """Say why the size of the KV cache cannot be computed from a configuration; "" where it can.

    Args:
        config: The model's `config.json`.
    """
    if isinstance(config.get("not_covered"), str):
        return str(config["not_covered"])
    text = text_config(config)
    kinds = [str(kind) for kind in text.get("layer_types") or [] if isinstance(kind, str)]
    strange = sorted({kind for kind in kinds if kind not in KNOWN_LAYERS})
    state = next((key for key in STATE_KEYS if text.get(key) not in (None, [], {}, "", 0, False)), "")
    if strange or state:
        return f"some layers keep a state instead of keys and values ({strange[0] if strange else state})"
    if text.get("is_encoder_decoder") is True or text.get("cross_attention_layers"):
        return "it attends to an encoder, whose cache comes on top"
    uneven = next((key for key in UNEVEN_KEYS if text.get(key) not in (None, [], {}, "", 0, False)), "")
    uneven = uneven or next((key for key in (*HEAD_KEYS, *KV_HEAD_KEYS, "head_dim") if _is_list(text.get(key))), "")
    if uneven:
        return f"its layers are not all of one size ({uneven})"
    sparse = next((key for key in SPARSE_KEYS if text.get(key) not in (None, [], {})), "")
    if sparse:
        return f"its sparse attention keeps an index beside the cache ({sparse})"
    return _shape_not_covered(config, text)


def _shape_not_covered(config: dict[str, Any], text: dict[str, Any]) -> str:
    """Say what is missing of the sizes, or does not fit the plain formula."""
    mla = is_mla(config)
    if is_number(text.get("kv_lora_rank")) and not mla:
        return f"vLLM may or may not keep the latent of this model ({text.get('model_type')})"
    value = text.get("v_head_dim")
    if not mla and is_number(value) and value != text.get("head_dim"):
        return "its keys and values are of different sizes (v_head_dim)"
    if is_number(text.get("attention_chunk_size")) and not text.get("layer_types"):
        return "it does not say which of its layers attend in chunks (layer_types)"
    wanted: list[tuple[str, ...]] = [LAYER_KEYS] if mla else [LAYER_KEYS, HEAD_KEYS]
    if not mla and not is_number(text.get("head_dim")):
        wanted.append(HIDDEN_KEYS)
    absent = [keys[0] for keys in wanted if not any(is_number(text.get(key)) for key in keys)]
    if absent:
        return f"it does not say {', '.join(absent)}; the defaults of the model's class apply"
    return ""


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def config_fields(config: dict[str, Any]) -> dict[str, str]:
    """Return what the arithmetic needs of a configuration, flat and without blanks, for one line of text.

    Args:
        config: The model's `config.json`. `config_of` makes of the result a configuration that gives the same numbers.
    """
    text = text_config(config)
    fields = {"type": _word(config.get("model_type")) or "unknown"}
    if _word(text.get("model_type")) not in {"", fields["type"]}:
        fields["model_type"] = _word(text["model_type"])
    fields |= {key: word for key in _PLAIN if (word := _word(text.get(key)))}
    for name in ("rope_scaling", "rope_parameters"):
        fields |= _nested(name, text.get(name), depth=2)
    quantization = text.get("quantization_config")
    if isinstance(quantization, dict):
        for key in ("bits", "quant_method", "kv_cache_scheme", "kv_cache_quant_algo"):
            value = quantization.get(key)
            if word := ("set" if isinstance(value, dict) and value else _word(value)):
                fields[f"quantization_config.{key}"] = word
    types = text.get("layer_types")
    if isinstance(types, list) and types and all(isinstance(kind, str) for kind in types):
        fields["layer_types"] = "+".join(f"{_word(kind)}*{count}" for kind, count in Counter(types).items())
    if reason := not_covered(config):
        fields["not_covered"] = reason.replace(" ", "~")
    return fields


def _nested(name: str, value: Any, depth: int) -> dict[str, str]:
    """Return the scalars of a mapping, and of the mappings in it, under dotted names."""
    found: dict[str, str] = {}
    for key, item in value.items() if isinstance(value, dict) else ():
        dotted = f"{name}.{_word(key)}"
        if isinstance(item, dict) and depth > 1:
            found |= _nested(dotted, item, depth - 1)
        elif word := _word(item):
            found[dotted] = word
    return found


def _word(value: Any) -> str:
    """Return a scalar as JSON writes it, a text without quotes and blanks; "" for null and anything nested."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value) if abs(value) < 1e18 else ""
    return "_".join(value.split())[:200] if isinstance(value, str) else ""


def config_of(fields: dict[str, str]) -> dict[str, Any]:
    """Return a configuration with the numbers of `config_fields`.

    Args:
        fields: As `config_fields` returned them.
    """
    config: dict[str, Any] = {}
    for dotted, word in fields.items():
        place = config
        *path, key = dotted.split(".")
        for part in path:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                break
            place = inner
        place[key] = _value(word)
    config.setdefault("model_type", config.pop("type", "unknown"))
    types = config.get("layer_types")
    if isinstance(types, str):
        config["layer_types"] = [
            kind for part in types.split("+") for kind, _, count in [part.partition("*")] for _ in range(_count(count))
        ]
    if isinstance(config.get("not_covered"), str):
        config["not_covered"] = config["not_covered"].replace("~", " ")
    return config


MOST_LAYERS = 10_000


def _count(word: str) -> int:
    return min(int(word), MOST_LAYERS) if word.isdecimal() else 0


def _value(word: str) -> Any:
    if word in {"true", "false"}:
        return word == "true"
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError:
        return word


def tokens_of(text: str) -> int | None:
    """Return a length as vLLM takes it on its command line: 1k is 1,000, 1K is 1,024; None if it is none.

    Source: vllm/engine/arg_utils.py (human_readable_int), 0.8 and later.
    """
    match = _LENGTH.fullmatch(text)
    return int(float(match[1]) * _FACTORS[match[2]]) if match else None
