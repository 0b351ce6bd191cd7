"""Starts vLLM as far as its own checks of arguments and environment, where it is installed; else replays what it said.

VLLM_PORT and FIRSTFAULT_MAX_MODEL_LEN are what a manifest would set. The check of the KV cache needs the weights on a
GPU and is always a replay. A replay says so in its first line, with the source of the record.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

LIMIT = 32768
RECORDS = Path(__file__).with_name("vllm_records.json")


def replay(name: str) -> None:
    """Print a recorded start and end as it did."""
    record = json.loads(RECORDS.read_text())[name]
    print(f"[replay] vLLM is not started here; the following lines were recorded: {record['source']}", flush=True)
    print("\n".join(record["lines"]), flush=True)
    sys.exit(1)


def check_port() -> None:
    """Let vLLM read its port."""
    envs = importlib.import_module("vllm.envs")

    print(f"VLLM_PORT={envs.VLLM_PORT}", flush=True)


def check_length(length: int) -> None:
    """Let vLLM compare a length with that of a model of 32,768 positions, of which only the configuration exists."""
    config = importlib.import_module("vllm.config")

    with tempfile.TemporaryDirectory() as folder:
        model = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": 256,
            "intermediate_size": 512,
            "num_attention_heads": 4,
            "num_hidden_layers": 2,
            "vocab_size": 1024,
            "max_position_embeddings": LIMIT,
        }
        (Path(folder) / "config.json").write_text(json.dumps(model))
        config.ModelConfig(model=folder, tokenizer=folder, skip_tokenizer_init=True, max_model_len=length)


installed = importlib.util.find_spec("vllm") is not None
port, length = os.environ.get("VLLM_PORT", "8000"), int(os.environ.get("FIRSTFAULT_MAX_MODEL_LEN", "8192"))
if port.startswith("tcp://") and not installed:
    replay("port")
if length > LIMIT and not installed:
    replay("length")
if os.environ.get("FIRSTFAULT_KV_CACHE") == "small":
    replay("cache")
if installed:
    check_port()
    check_length(length)
print(f"configuration accepted: port {port}, max-model-len {length}", flush=True)
