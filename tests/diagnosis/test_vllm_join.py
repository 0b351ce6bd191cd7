"""A vLLM log and the model's config.json, joined: the wall, the numbers, the largest length, or why there is none."""

from __future__ import annotations

import json
import tarfile

import pytest

from firstfault import triage
from firstfault.model.vllm_memory import GIB, ServingPlan, kv_bytes, largest_length

QWEN3_8B = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "max_position_embeddings": 40960,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "head_dim": 128,
    "torch_dtype": "bfloat16",
    "sliding_window": None,
}
QWEN25_05B = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "max_position_embeddings": 32768,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "hidden_size": 896,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "sliding_window": 32768,
}
DEEPSEEK_V2_LITE = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "max_position_embeddings": 163840,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "hidden_size": 2048,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
}
STEM = "(EngineCore_DP0 pid=271) "
VERSION = "(APIServer pid=1) INFO 11-05 12:18:01 [api_server.py:1839] vLLM API server version 0.11.0\n"
FAILED = STEM + "ERROR 11-05 12:19:33 [core.py:708] ValueError: "


def options(**values):
    """The line in which the API server prints what was asked for."""
    return f"{VERSION}(APIServer pid=1) INFO 11-05 12:18:01 [utils.py:233] non-default args: {values!r}\n"


def engine(length, tensor_parallel=1, dtype="auto", version="0.11.0", engine_name="V1 "):
    """The line in which the engine prints what it made of it."""
    return (
        f"{STEM}INFO 11-05 12:18:20 [core.py:77] Initializing a {engine_name}LLM engine (v{version}) with config: "
        f"model='Qwen/Qwen3-8B', speculative_config=None, tokenizer='Qwen/Qwen3-8B', dtype=torch.bfloat16, "
        f"max_seq_len={length}, download_dir=None, tensor_parallel_size={tensor_parallel}, pipeline_parallel_size=1, "
        f"kv_cache_dtype={dtype}, device_config=cuda\n"
    )


def available(gib, who=STEM):
    """What the profiling run left."""
    return f"{who}INFO 11-05 12:19:32 [gpu_worker.py:298] Available KV cache memory: {gib} GiB\n"


@pytest.fixture
def judge(tmp_path):
    """Triage a log beside a configuration."""

    def run(log, config=None, name="config.json"):
        (tmp_path / "vllm.log").write_text(log)
        if config is not None:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(config, indent=2))
        return triage([tmp_path])

    return run


def test_both_orders_a_folder_and_an_archive_give_the_same_answer(tmp_path):
    """What vLLM would print for 4.50 GiB comes out of the two files, however they are handed over."""
    log, config = tmp_path / "vllm.log", tmp_path / "config.json"
    log.write_text(options(model="Qwen/Qwen3-8B") + engine(40960) + available("4.50"))
    config.write_text(json.dumps(QWEN3_8B))
    packed = tmp_path.parent / f"{tmp_path.name}.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(log, "logs/vllm.log")
        archive.add(config, "model/config.json")
    for paths in ([log, config], [config, log], [tmp_path], [packed]):
        report = triage(paths)
        assert report.verdict.cause == "workload.vllm.kv-cache"
        assert "one request of 40960 tokens needs 5.62 GiB of KV cache on each GPU, 4.50 GiB" in report.verdict.summary
        assert report.verdict.fix[0].startswith("Set `--max-model-len 32768`")
        assert "1.12 GiB more" in report.verdict.fix[0]
        (serving,) = report.serving
        assert (serving.wall, serving.requested, serving.limit, serving.largest) == ("kv-cache", 40960, 40960, 32768)
        assert serving.needed_bytes == 40960 * 147456
        cited = {item.source.rpartition("/")[2].rpartition("!")[2].rpartition("/")[2] for item in serving.evidence}
        assert cited == {"vllm.log", "config.json"}
        assert {item.role for item in report.verdict.evidence} == {"root", "context"}


def test_only_the_memory_and_the_configuration(judge):
    """A log that was cut down to one line is enough: the length is the model's own."""
    report = judge(available("4.50"), QWEN3_8B)
    assert report.verdict.cause == "workload.vllm.kv-cache"
    assert (report.serving[0].largest, report.serving[0].requested) == (32768, 40960)
    # The log rounds to two decimals, so this is what fits in any case.
    assert report.serving[0].safe == largest_length(QWEN3_8B, int(4.495 * GIB), 40960) == 32720


def test_only_the_options_and_the_configuration(judge):
    """Wall a needs no memory: the length that was asked for against the one the model was made for."""
    report = judge(options(model="Qwen/Qwen3-8B", max_model_len=65536), QWEN3_8B)
    assert report.verdict.cause == "workload.vllm.max-model-len"
    assert report.verdict.fix[0] == "Set `--max-model-len 40960`."
    assert report.serving[0].limit == 40960


@pytest.mark.parametrize(
    "command",
    ["+ vllm serve Qwen/Qwen3-8B --max-model-len 65536\n", "+ vllm serve m --max-model-len=64K --port 8000\n"],
)
def test_a_command_line_that_the_shell_printed(judge, command):
    """`set -x` in the entry point shows the length just as well."""
    assert judge(command + VERSION, QWEN3_8B).verdict.cause == "workload.vllm.max-model-len"


def test_a_length_that_passed_is_no_wall(judge):
    """VLLM_ALLOW_LONG_MAX_MODEL_LEN lets a longer context through: the engine's own line proves it."""
    log = options(model="m", max_model_len=65536) + engine(65536) + available("40.00")
    assert judge(log, QWEN3_8B).verdict is None


def test_overrides_of_the_configuration_are_respected(judge):
    """Whoever overrides the RoPE scaling has another limit than config.json says."""
    log = options(model="m", max_model_len=131072, hf_overrides={"rope_scaling": {"rope_type": "yarn"}})
    assert judge(log, QWEN3_8B).verdict is None


def test_a_server_that_came_up_is_healthy_and_its_numbers_are_told(judge):
    """No fault, but the numbers are worth having: how long a context would fit."""
    log = (
        options(model="Qwen/Qwen3-8B", max_model_len=8192)
        + engine(8192)
        + available("4.50")
        + STEM
        + "INFO 11-05 12:19:33 [kv_cache_utils.py:1087] GPU KV cache size: 32,768 tokens\n"
        + "INFO:     Application startup complete.\n"
    )
    report = judge(log, QWEN3_8B)
    assert report.status == "healthy"
    assert (report.serving[0].wall, report.serving[0].largest) == ("none", 32768)


def test_the_last_start_counts(judge):
    """A restarted server may have other options; the earlier start is not what failed."""
    first = options(model="m", max_model_len=65536)
    second = options(model="m", max_model_len=16384) + engine(16384) + available("4.50")
    report = judge(first + second, QWEN3_8B)
    assert report.verdict is None
    assert report.serving[0].requested == 16384


def test_the_gpu_with_the_least_memory_decides(judge):
    """Workers of a tensor-parallel server print a figure each."""
    log = engine(40960, tensor_parallel=2)
    log += available("2.25", "(VllmWorker rank=0 pid=5) ") + available("2.00", "(VllmWorker rank=1 pid=6) ")
    serving = judge(log, QWEN3_8B).serving[0]
    plan = ServingPlan(tensor_parallel_size=2)
    assert serving.largest == largest_length(QWEN3_8B, 2 * GIB, 40960, plan)
    assert serving.needed_bytes == kv_bytes(QWEN3_8B, 40960, plan)


def test_an_error_without_an_estimate_gets_it_from_the_configuration(judge):
    """The first V1 engines printed no estimate; with config.json it is the one that later ones print."""
    message = "To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is needed, which is larger than the available KV cache memory (4.50 GiB). Try increasing `gpu_memory_utilization`\n"
    report = judge(FAILED + message, QWEN3_8B)
    assert report.serving[0].largest == 32768
    assert report.verdict.fix[0].startswith("Set `--max-model-len 32768`")
    assert not report.missing
    alone = triage([])
    assert alone.serving == []


def test_a_parallelism_that_no_line_says_is_told_from_the_figures(judge):
    """5.62 GiB on one GPU are 2.81 on each of two: the printed figure says which."""
    message = "To serve at least one request with the models's max seq len (40960), (2.81 GiB KV cache is needed, which is larger than the available KV cache memory (2.25 GiB). Try increasing\n"
    serving = judge(FAILED + message, QWEN3_8B).serving[0]
    assert (serving.tensor_parallel_size, serving.largest) == (2, 32768)


def test_a_configuration_that_disagrees_with_the_server_is_not_used(judge):
    """Another model's config.json must not give a number; the report says what does not fit."""
    message = "To serve at least one request with the models's max seq len (32768), (11.25 GiB KV cache is needed, which is larger than the available KV cache memory (4.50 GiB). Try increasing\n"
    report = judge(FAILED + message, QWEN25_05B)
    assert report.serving[0].config is None
    assert "another model's" in report.serving[0].unknown
    assert any("another model's" in item.why for item in report.missing)
    assert report.verdict.fix[0].startswith("Set `--max-model-len 13072`")  # a lower bound from the log alone


def test_without_a_configuration_the_report_asks_for_it(judge):
    """The wall is named by the log; the length needs config.json, and the command that fetches it is there."""
    log = options(model="Qwen/Qwen3-8B") + FAILED + "No available memory for the cache blocks. Try increasing\n"
    report = judge(log)
    assert report.verdict.cause == "workload.vllm.kv-cache"
    (missing,) = report.missing
    assert "config.json is not in the input" in missing.why
    assert "huggingface.co/Qwen/Qwen3-8B/resolve/main/config.json" in missing.command


def test_nothing_left_says_how_much_is_short(judge):
    """Where no length fits, the number that helps is the memory that is missing."""
    log = options(model="m", max_model_len=8192) + available("-1.23")
    log += FAILED + "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`\n"
    report = judge(log, QWEN3_8B)
    assert report.serving[0].largest == 0
    assert report.verdict.fix[0].startswith("Find 2.36 GiB more")


def test_the_figures_of_a_v0_engine(judge):
    """A published log of 0.7: 16.29 GiB gave 88,952 blocks of 16 tokens; ours differ by the rounding alone."""
    log = (
        "INFO 08-16 20:01:30 [worker.py:295] the current vLLM instance can use total_gpu_memory (23.68GiB) x "
        "gpu_memory_utilization (0.78) = 18.47GiB\n"
        "INFO 08-16 20:01:30 [worker.py:295] model weights take 0.52GiB; non_torch_memory takes 0.06GiB; PyTorch "
        "activation peak memory takes 1.61GiB; the rest of the memory reserved for KV Cache is 16.29GiB.\n"
        "INFO 08-16 20:01:31 [executor_base.py:113] # cuda blocks: 88952, # CPU blocks: 0\n"
        "INFO 08-16 20:01:31 [executor_base.py:118] Maximum concurrency for 32768 tokens per request: 43.43x\n"
    )
    serving = judge(log, QWEN25_05B).serving[0]
    assert serving.wall == "none"
    assert serving.largest == 32768
    assert serving.available_bytes // kv_bytes(QWEN25_05B, 16) == pytest.approx(88952, rel=0.0005)


def test_a_v0_engine_that_stops_behind_its_block_count(judge):
    """V0 prints its blocks before it checks them: 790 blocks are 12,640 tokens."""
    log = (
        "INFO 04-27 10:12:01 api_server.py:152] args: Namespace(host=None, model='m', max_model_len=32768, block_size=16)\n"
        "INFO 04-27 10:13:05 gpu_executor.py:94] # GPU blocks: 790, # CPU blocks: 256\n"
    )
    report = judge(log)
    assert report.serving[0].largest == 12640
    assert (report.serving[0].wall, report.serving[0].unknown) == ("kv-cache", "")


@pytest.mark.parametrize(
    ("config", "log", "plan", "gib"),
    [
        (DEEPSEEK_V2_LITE, engine(163840, tensor_parallel=8), ServingPlan(block_size=64), 3.0),
        (QWEN3_8B, engine(40960, dtype="fp8"), ServingPlan(kv_cache_dtype="fp8"), 2.0),
        (QWEN3_8B, engine(40960, tensor_parallel=16), ServingPlan(tensor_parallel_size=16), 0.5),
        (QWEN3_8B, options(model="m", block_size=32) + engine(40960), ServingPlan(block_size=32), 2.0),
    ],
    ids=["MLA is not split over GPUs", "fp8 halves it", "more GPUs than heads", "larger blocks"],
)
def test_what_changes_the_size(judge, config, log, plan, gib):
    """The options that the log prints go into the formula."""
    serving = judge(log + available(f"{gib:.2f}"), config).serving[0]
    assert serving.largest == largest_length(config, int(gib * GIB), 200_000, plan)


def test_layers_with_a_window_give_a_bound_that_holds_for_each_formula(judge):
    """Releases count windows each on its own or in padded groups: the safe length holds for both."""
    kinds = (["sliding_attention"] * 5 + ["full_attention"]) * 6 + ["sliding_attention"] * 4
    config = {**QWEN3_8B, "sliding_window": 1024, "layer_types": kinds, "num_hidden_layers": len(kinds)}
    config["max_position_embeddings"] = 131072
    serving = judge(engine(131072) + available("4.50"), config).serving[0]
    lengths = [
        largest_length(config, int(4.495 * GIB), 131072, ServingPlan(windows=windows, max_num_batched_tokens=count))
        for windows in ("kept", "grouped")
        for count in (2048, 8192, 16384)
    ]
    assert serving.safe == min(lengths)
    assert serving.safe < serving.largest <= 131072
    assert not serving.exact


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mamba_d_state": 128}, "keep a state"),
        ({"layer_types": ["linear_attention"] * 3 + ["full_attention"]}, "linear_attention"),
        ({"is_encoder_decoder": True}, "encoder"),
        ({"num_attention_heads": None}, "does not say num_attention_heads"),
        ({"index_topk": 2048}, "sparse attention"),
        ({"num_key_value_heads": [8, 4, 2]}, "not all of one size"),
        ({"kv_lora_rank": 256, "model_type": "minicpm3"}, "may or may not"),
        ({"quantization_config": {"quant_method": "x", "kv_cache_scheme": {"num_bits": 8}}}, "quantizes its KV cache"),
    ],
)
def test_kinds_that_the_formula_does_not_cover_get_no_number(judge, change, reason):
    """Better no number than a wrong one; the reason is in the report, and no fault is made of it."""
    report = judge(engine(40960) + available("0.50"), {**QWEN3_8B, **change})
    assert reason in report.serving[0].unknown
    assert report.verdict is None
    assert report.serving[0].needed_bytes is None


def test_the_configuration_of_the_served_model_is_picked(tmp_path):
    """Among several models' files the one in the model's own folder counts; without such a sign none does."""
    (tmp_path / "vllm.log").write_text(engine(40960) + available("4.50"))
    for name, config in (("models--Qwen--Qwen3-8B/snapshots/1", QWEN3_8B), ("other/model", QWEN25_05B)):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    assert triage([tmp_path]).serving[0].largest == 32768
    (tmp_path / "models--Qwen--Qwen3-8B").rename(tmp_path / "unnamed")
    unsure = triage([tmp_path])
    assert "none is clearly the one" in unsure.serving[0].unknown
    assert unsure.verdict is None
