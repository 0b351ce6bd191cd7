"""The second wall of vLLM: the KV cache of one request against the memory that weights leave."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.helm_values import render_hint
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.serving import Server, servers, unread_charts
from firstfault.model.vllm_config import not_covered
from firstfault.model.vllm_memory import GIB, ServingPlan, assess, available_bytes, weights_bytes

# Peak of the profiling run, CUDA context and graphs: the least that is seen.
_OTHER = 1 * GIB


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge servers whose model configuration and GPU are among the inputs; of the others, say what is not.

    A server that names neither a length nor a model whose configuration is here is nothing to compute from: the
    manifests of charts and guides have no such wall that a file could show.
    """
    for server in servers(inventory):
        if server.config is not None and server.memory_gib is not None:
            yield from _judge(server, server.config, server.memory_gib)
        elif server.config is not None or server.max_model_len is not None:
            why = f"the KV cache cannot be computed; not among the inputs: {'; '.join(server.missing)}"
            yield unknown(server.place, server.subject, why)
    for release in unread_charts(inventory):
        why = f"the KV cache cannot be computed from Helm values; {render_hint(release.place.path)}"
        yield unknown(release.place, release.subject, why)


def _judge(server: Server, config: dict[str, object], memory_gib: float) -> Iterator[Outcome]:
    parallel = max(int(server.number("tensor-parallel-size", 1)), 1)
    pipeline = max(int(server.number("pipeline-parallel-size", 1)), 1)
    plan = ServingPlan(
        tensor_parallel_size=parallel,
        pipeline_parallel_size=pipeline,
        kv_cache_dtype=server.options.get("kv-cache-dtype", "auto"),
    )
    weights = weights_bytes(config, parallel) // pipeline
    utilization = server.number("gpu-memory-utilization", 0.9)
    left = available_bytes(int(memory_gib * GIB), utilization, weights, other=_OTHER)
    fit = assess(config, max_model_len=server.max_model_len, available=left, plan=plan)
    if fit.wall == "max-position":
        return  # the first wall has a check of its own
    if fit.needed is None:
        why = not_covered(config)
        yield unknown(server.place, server.subject, f"the size of the KV cache cannot be computed: {why}")
        return
    if fit.wall in {"kv-cache", "no-memory"}:
        shown = f"{memory_gib:g} GiB at {utilization:g}, weights about {weights / GIB:.1f} GiB: {fit.summary}"
        yield failed(server.place, server.subject, shown)
    else:
        yield passed(server.place, server.subject, fit.summary)
