"""A model's configuration on one line of text: nothing that the arithmetic needs is lost on the way."""

from __future__ import annotations

import pytest

from firstfault.model.vllm_config import config_fields, config_of, derived_length, is_mla, kv_layers, not_covered

BASE = {"model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512}
CONFIGS = {
    "plain": BASE | {"max_position_embeddings": 4096, "num_key_value_heads": 2},
    "multimodal": {"model_type": "gemma3", "text_config": BASE | {"model_type": "gemma3_text", "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}},
    "yarn": BASE | {"max_position_embeddings": 32768, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    "rope for each kind": BASE | {"max_position_embeddings": 32768, "rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8192}, "sliding_attention": {"rope_type": "default"}}},
    "windows": BASE | {"max_position_embeddings": 8192, "sliding_window": 1024, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "every other layer": BASE | {"model_type": "gemma2", "max_position_embeddings": 8192, "sliding_window": 4096},
    "latent": BASE | {"model_type": "deepseek_v3", "max_position_embeddings": 8192, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
    "no latent in vLLM": BASE | {"model_type": "minicpm3", "kv_lora_rank": 256},
    "state": BASE | {"model_type": "jamba", "attn_layer_period": 8, "max_position_embeddings": 8192},
    "GPT-2": {"model_type": "gpt2", "n_positions": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768},
    "odd values": BASE | {"max_position_embeddings": True, "sliding_window": "x y", "num_key_value_heads": 0, "vocab_size": 10**30},
}  # fmt: skip


@pytest.mark.parametrize("name", CONFIGS)
def test_a_line_of_text_gives_the_same_numbers(name):
    """The reader prints the configuration as one line, and diagnosis computes from that line."""
    config = CONFIGS[name]
    again = config_of(
        dict(
            word.partition("=")[::2]
            for word in " ".join(f"{key}={word}" for key, word in config_fields(config).items()).split()
        )
    )
    assert derived_length(again) == derived_length(config)
    assert kv_layers(again) == kv_layers(config)
    assert not_covered(again) == not_covered(config)
    assert is_mla(again) == is_mla(config)


def test_every_other_layer_of_gemma_2_has_a_window():
    """Its config.json does not say so; the model's code does."""
    assert [(layers.count, layers.window) for layers in kv_layers(CONFIGS["every other layer"])] == [
        (2, None),
        (2, 4096),
    ]


def test_a_latent_only_where_vllm_keeps_one():
    """Models with the same fields that vLLM serves with whole heads are not counted as MLA."""
    assert is_mla(CONFIGS["latent"])
    assert not is_mla(CONFIGS["no latent in vLLM"])
    assert "may or may not" in not_covered(CONFIGS["no latent in vLLM"])
