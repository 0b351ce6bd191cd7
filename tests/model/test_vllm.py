"""vLLM's two walls: our numbers equal the ones that vLLM printed."""

from __future__ import annotations

import pytest

from firstfault.model.vllm_log import fit_from_log, fit_from_text
from firstfault.model.vllm_memory import (
    GIB,
    ServingPlan,
    assess,
    available_bytes,
    derived_length,
    kv_bytes,
    largest_length,
    weights_bytes,
)

QWEN3_8B = {
    "model_type": "qwen3",
    "max_position_embeddings": 40960,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "head_dim": 128,
    "torch_dtype": "bfloat16",
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "use_sliding_window": False,
    "sliding_window": None,
}
LLAMA31_8B = {
    "model_type": "llama",
    "max_position_embeddings": 131072,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
}
DEEPSEEK_V2_LITE = {
    "model_type": "deepseek_v2",
    "max_position_embeddings": 163840,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "hidden_size": 2048,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
}
MISTRAL_V01 = {
    "model_type": "mistral",
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
}

# (config, max_model_len, GiB needed as printed, GiB available as printed, estimate as printed)
PRINTED = [
    (QWEN3_8B, 40960, "5.62", 4.50, 32768),
    (LLAMA31_8B, 131072, "16.00", 4.21, 34480),
]


@pytest.mark.parametrize(("config", "length", "needed", "available", "estimate"), PRINTED)
def test_the_numbers_are_those_that_vllm_printed(config, length, needed, available, estimate):
    """Real messages of the V1 engine: needed memory and estimated length come out of config.json to the digit."""
    assert f"{kv_bytes(config, length) / GIB:.2f}" == needed
    assert largest_length(config, int(available * GIB), length) == estimate
    fit = assess(config, max_model_len=length, available=int(available * GIB))
    assert (fit.wall, fit.largest) == ("kv-cache", estimate)
    message = (
        f"ValueError: To serve at least one request with the models's max seq len ({length}), ({needed} GiB KV cache is "
        f"needed, which is larger than the available KV cache memory ({available:.2f} GiB). Based on the available "
        f"memory, the estimated maximum model length is {estimate}. Try increasing `gpu_memory_utilization`"
    )
    read = fit_from_text(message)
    assert (read.wall, read.requested, read.largest, read.exact) == ("kv-cache", length, estimate, True)


def test_without_an_estimate_the_log_gives_a_lower_bound():
    """The first V1 engines printed no estimate: what we say must fit, and be within one per cent."""
    message = "To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory (4.50 GiB). Try increasing"
    fit = fit_from_text(message)
    assert not fit.exact
    assert 32768 * 0.99 < fit.largest <= 32768


@pytest.mark.parametrize(
    ("message", "wall", "requested", "largest"),
    [
        ("The model's max seq len (29000) is larger than the maximum number of tokens that can be stored in KV cache (23648). Try", "kv-cache", 29000, 23648),
        ("User-specified max_model_len (4096) is greater than the derived max_model_len (seq_length=2048 or model_max_length=None in model's config.json).", "max-position", 4096, 2048),
        ("User-specified max_model_len (65536) is greater than the derived max_model_len (max_position_embeddings=32768.0 or model_max_length=None in", "max-position", 65536, 32768),
        ("User-specified max_model_len (12288) is greater than the derived max_model_len (sliding_window=4096.0 or model_max_length=None in", "max-position", 12288, 4096),
        ("To serve at least one request with the model's max seq len (262144), 9.29 GiB KV cache is needed, which is larger than the available KV cache memory (9.28 GiB). Based on the available memory, the estimated maximum model length is 260800.", "kv-cache", 262144, 260800),
        ("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", "no-memory", 0, 0),
    ],
)  # fmt: skip
def test_messages_of_every_engine(message, wall, requested, largest):
    """V0, V1, new and old wordings."""
    fit = fit_from_text(f"(EngineCore_DP0 pid=1) ERROR 10-08 20:33:48 [core.py:708] ValueError: {message}")
    assert (fit.wall, fit.requested, fit.largest) == (wall, requested, largest)
    assert wall == "no-memory" or str(largest) in fit.summary


def test_a_message_broken_over_lines():
    """Loggers break the message; the estimate on the last line still counts."""
    lines = [
        "ERROR [core.py:708] ValueError: To serve at least one request with the models's max seq len (40960),",
        "(5.62 GiB KV cache is needed, which is larger than the available KV cache memory (4.50 GiB).",
        "Based on the available memory, the estimated maximum model length is 32768.",
    ]
    assert fit_from_log(lines).largest == 32768
    assert fit_from_log(["INFO all fine", "GPU KV cache size: 312,448 tokens"]) is None


@pytest.mark.parametrize(
    ("config", "tokens", "key", "default"),
    [
        (QWEN3_8B, 40960, "max_position_embeddings", 40960),
        (LLAMA31_8B, 131072, "max_position_embeddings", 131072),
        (DEEPSEEK_V2_LITE, 163840, "max_position_embeddings", 163840),
        ({**QWEN3_8B, "max_position_embeddings": 32768, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}, 131072.0, "max_position_embeddings", 131072),
        ({"max_position_embeddings": 2048, "rope_scaling": {"type": "linear", "factor": 2.0}}, 4096.0, "max_position_embeddings", 4096),
        ({"model_type": "gemma3", "text_config": {"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "linear", "factor": 8.0}}}, 131072, "max_position_embeddings", 131072),
        ({"max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "rope_scaling": {"type": "longrope", "short_factor": [1]}}, 131072, "max_position_embeddings", 4096),
        ({"n_positions": 1024}, 1024, "n_positions", 1024),
        ({"max_position_embeddings": 8192, "model_max_length": 131072}, 131072, "model_max_length", 131072),
        ({}, 2048, "default", 2048),
        ({"max_position_embeddings": 32768, "rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8192}, "sliding_attention": {"rope_type": "default"}}}, 16384.0, "max_position_embeddings", 16384),
    ],
)  # fmt: skip
def test_the_length_that_the_model_allows(config, tokens, key, default):
    """RoPE scaling, Gemma's exception, LongRoPE's default, Command-R's own key."""
    derived = derived_length(config)
    assert (derived.tokens, derived.key, derived.default) == (tokens, key, default)


def test_the_tokenizer_and_a_disabled_window_lower_the_length():
    """Both are in vLLM's message, so both must be in ours."""
    assert derived_length(QWEN3_8B, {"model_max_length": 4096}).tokens == 4096
    derived = derived_length(MISTRAL_V01, disable_sliding_window=True)
    assert (derived.tokens, derived.key) == (4096, "sliding_window")


def test_the_first_wall_comes_first():
    """A length that hits both walls is reported as the first one, and the largest length passes both."""
    fit = assess(LLAMA31_8B, max_model_len=200_000, available=4 * GIB)
    assert fit.wall == "max-position"
    assert fit.largest == 32768
    assert assess(LLAMA31_8B, max_model_len=fit.largest, available=4 * GIB).wall == "none"
    assert assess(LLAMA31_8B, max_model_len=fit.largest + 1, available=4 * GIB).wall == "kv-cache"
    assert assess(LLAMA31_8B, max_model_len=1000, available=-1).wall == "no-memory"


def test_what_changes_the_size_of_the_cache():
    """Tensor parallelism splits heads but not the latent of MLA; fp8 halves; windows stop growing."""
    one = kv_bytes(LLAMA31_8B, 8192)
    assert one == 8192 * 131072
    assert kv_bytes(LLAMA31_8B, 8192, ServingPlan(tensor_parallel_size=2)) == one // 2
    assert kv_bytes(LLAMA31_8B, 8192, ServingPlan(tensor_parallel_size=16)) == one // 8
    assert kv_bytes(LLAMA31_8B, 8192, ServingPlan(kv_cache_dtype="fp8_e4m3")) == one // 2
    assert kv_bytes(LLAMA31_8B, 8192, ServingPlan(pipeline_parallel_size=2)) == one // 2
    mla = kv_bytes(DEEPSEEK_V2_LITE, 16)
    assert mla == 27 * 16 * 576 * 2
    assert kv_bytes(DEEPSEEK_V2_LITE, 16, ServingPlan(tensor_parallel_size=8)) == mla
    plan = ServingPlan(max_num_batched_tokens=2048)
    window = kv_bytes(MISTRAL_V01, 1_000_000, plan)
    assert window == kv_bytes(MISTRAL_V01, 10_000, plan) == 32 * ((4096 - 1 + 2048 + 15) // 16 + 1) * 16 * 8 * 256 * 2
    gemma = {**LLAMA31_8B, "sliding_window": 1024, "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 8}
    assert one // 4 < kv_bytes(gemma, 8192, plan) < one


def test_weights_and_memory_left():
    """The estimate of the weights is good to a few per cent: Llama 3.1 8B takes 14.99 GiB, Qwen3 8B 15.27."""
    assert weights_bytes(LLAMA31_8B) == pytest.approx(14.99 * GIB, rel=0.02)
    assert weights_bytes(QWEN3_8B) == pytest.approx(15.27 * GIB, rel=0.02)
    mixtral = {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "num_local_experts": 8,
        "vocab_size": 32000,
    }
    assert weights_bytes(mixtral) == pytest.approx(93.4e9, rel=0.02)
    left = available_bytes(24 * GIB, 0.9, 15 * GIB, activations=GIB)
    assert left == int(24 * GIB * 0.9) - 16 * GIB
