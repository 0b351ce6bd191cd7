"""A model's `config.json` (Hugging Face): the numbers that decide how long a context fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.scan.readers.facts import Context, mapping, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model import TextLine

__all__ = ["config_facts", "is_model_config"]

_KEYS = (
    "max_position_embeddings", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size",
    "head_dim", "sliding_window", "kv_lora_rank", "qk_rope_head_dim", "torch_dtype", "dtype", "n_positions",
    "max_seq_len",
)  # fmt: skip


def is_model_config(value: dict[str, Any]) -> bool:
    """Say whether a document is the configuration of a language model."""
    text = mapping(value, "text_config") or value
    return ("architectures" in value or "model_type" in value) and any(
        key in text for key in ("max_position_embeddings", "num_hidden_layers", "n_positions")
    )


def config_facts(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Yield one line with the numbers that are set."""
    text = {**value, **mapping(value, "text_config")}
    pairs = [f"{key}={text_of(text[key])}" for key in _KEYS if text.get(key) is not None]
    rope = mapping(text, "rope_scaling")
    pairs.extend(f"rope_scaling.{key}={text_of(item)}" for key, item in rope.items() if text_of(item))
    yield from context.print(
        f"model-config type={text_of(value.get('model_type')) or 'unknown'} {' '.join(pairs)}",
        needle='"max_position_embeddings"',
    )
