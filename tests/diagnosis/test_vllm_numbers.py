"""A verdict about vLLM's context length says the numbers, not only that it is too long."""

from __future__ import annotations

import pytest

from firstfault import triage

SERVE = "(EngineCore_DP0 pid=1) ERROR 10-08 20:33:48 [core.py:708] ValueError: "
CASES = {
    "V1 with its estimate": (
        "To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory (4.50 GiB). Based on the available memory, the estimated maximum model length is 32768. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
        "workload.vllm.kv-cache",
        "one request of 40960 tokens needs 5.62 GiB of KV cache on each GPU, 4.50 GiB are there",
        "Set `--max-model-len 32768`, or find 1.12 GiB more for the KV cache on each GPU.",
    ),
    "V0": (
        "The model's max seq len (29000) is larger than the maximum number of tokens that can be stored in KV cache (23648). Try increasing `gpu_memory_utilization`",
        "workload.vllm.kv-cache",
        "the KV cache holds 23648 tokens, one request may have 29000",
        "Set `--max-model-len 23648`.",
    ),
    "the model's own limit": (
        "User-specified max_model_len (65536) is greater than the derived max_model_len (max_position_embeddings=32768.0 or model_max_length=None in model's config.json).",
        "workload.vllm.max-model-len",
        "max_model_len 65536 is above what the model allows (max_position_embeddings gives 32768)",
        "Set `--max-model-len 32768`.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_names_the_wall_and_the_length_that_fits(tmp_path, case):
    """Summary and first fix hold the numbers that vLLM printed."""
    message, cause, summary, fix = CASES[case]
    log = tmp_path / "vllm.log"
    log.write_text(f"INFO 10-08 20:33:01 [__init__.py:216] Automatically detected platform cuda.\n{SERVE}{message}\n")
    verdict = triage([log]).verdict
    assert verdict.cause == cause
    assert f"In numbers: {summary}" in verdict.summary
    assert verdict.fix[0] == fix
