"""Numbers that Helm wrote with an exponent, where a program reads a whole number."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import Container
from firstfault.checks.located import Place
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.workloads import container_env, options_of

_EXPONENT = re.compile(r"\d+(?:\.\d+)?[eE]\+?\d+")
# Options that are parsed by int(), or by a function of their own that takes no exponent; those of floats are left out.
_OPTIONS = frozenset({
    # vLLM, SGLang, TGI
    "max-model-len", "max-num-batched-tokens", "max-num-seqs", "num-gpu-blocks-override", "max-seq-len-to-capture",
    "max-logprobs", "long-prefill-token-threshold", "block-size", "tensor-parallel-size", "pipeline-parallel-size",
    "data-parallel-size", "seed", "port", "context-length", "max-total-tokens", "max-prefill-tokens",
    "chunked-prefill-size", "max-running-requests", "max-input-tokens", "max-input-length",
    "max-batch-prefill-tokens", "max-batch-total-tokens",
    # torchrun
    "nnodes", "nproc-per-node", "node-rank", "max-restarts", "master-port",
    # Megatron-LM, DeepSpeed's and Hugging Face's trainers
    "max-steps", "train-iters", "train-samples", "global-batch-size", "micro-batch-size", "seq-length",
    "max-position-embeddings", "save-interval", "eval-interval", "eval-iters", "lr-decay-iters", "lr-decay-samples",
    "lr-warmup-iters", "lr-warmup-samples", "gradient-accumulation-steps", "per-device-train-batch-size",
    "max-seq-length",
})  # fmt: skip
_VARIABLES = (
    "MASTER_PORT", "WORLD_SIZE", "NNODES", "NODE_RANK", "PET_NNODES", "PET_MAX_RESTARTS", "OMP_NUM_THREADS",
    "NCCL_BUFFSIZE", "NCCL_LL_BUFFSIZE", "NCCL_LL128_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_P2P_PCI_CHUNKSIZE",
    "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_NVLS_CHUNKSIZE", "NCCL_P2P_LL_THRESHOLD",
    "NCCL_IB_TIMEOUT", "NCCL_SOCKET_RETRY_SLEEP_MSEC", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", "TORCH_NCCL_COORD_CHECK_MILSEC", "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC",
    "VLLM_RPC_TIMEOUT", "VLLM_ENGINE_ITERATION_TIMEOUT_S", "VLLM_PORT", "VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE",
)  # fmt: skip


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the containers that are given a whole number which this check knows."""
    for pod in inventory.pods:
        for container in pod.containers:
            options = {name: value for name, value in options_of(container.words).items() if name in _OPTIONS}
            environment = {name: container_env(inventory, container, name) for name in _VARIABLES}
            numbers = {f"--{name}": value for name, value in options.items()}
            numbers |= {name: value for name, value in environment.items() if isinstance(value, str)}
            wrong = {name: value for name, value in numbers.items() if _EXPONENT.fullmatch(value.strip())}
            for name, value in wrong.items():
                whole = f"{float(value):.0f}"
                message = f"{name} is {value!r}, which is no whole number to the program; {whole} was meant"
                yield failed(_place(container, value), container.subject, message)
            if numbers and not wrong:
                yield passed(_place(container), container.subject)


def _place(container: Container, value: str = "") -> Place:
    """Return the line of the word or variable that holds the value, else that of the arguments or the container."""
    for key in ("args", "command"):
        words = container.body.get(key)
        for index, word in enumerate(words if value and isinstance(words, list) else []):
            if value in str(word):
                return container.place(key, index)
    variables = container.body.get("env")
    for index, entry in enumerate(variables if value and isinstance(variables, list) else []):
        if isinstance(entry, dict) and entry.get("value") == value:
            return container.place("env", index, "value")
    return container.place("args" if "args" in container.body else "command")
