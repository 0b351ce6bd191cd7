"""A model's `config.json` (Hugging Face): the numbers that decide how long a context fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.model.vllm_config import config_fields, text_config
from firstfault.scan.readers.facts import Context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model import TextLine

__all__ = ["config_facts", "is_model_config"]

_MARKS = ("max_position_embeddings", "num_hidden_layers", "n_positions", "n_layer", "n_layers", "num_layers")
MAX_LINE = 2000  # what an observation keeps of a line


def is_model_config(value: dict[str, Any]) -> bool:
    """Say whether a document is the configuration of a language model."""
    text = text_config(value)
    return ("architectures" in value or "model_type" in value) and any(key in text for key in _MARKS)


def config_facts(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Yield one line with the numbers that are set; `vllm_config.config_of` reads it back."""
    pairs = " ".join(f"{key}={word}" for key, word in config_fields(value).items())
    yield from context.print(f"model-config {pairs}"[:MAX_LINE], needle='"max_position_embeddings"')
