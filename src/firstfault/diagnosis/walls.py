"""Joins what a vLLM server logged with the model's `config.json`: which wall it meets, and the length that fits.

What vLLM printed wins over what we compute. A configuration that gives another figure than the server printed is not
that server's, or its options are not all known: it is not used. Where nothing can be computed, the reason is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.diagnosis.serving import Server, read_servers
from firstfault.model import Observation, Role, Serving
from firstfault.model.vllm_config import config_of, derived_length, is_mla, not_covered, text_config
from firstfault.model.vllm_log import ROUNDING
from firstfault.model.vllm_memory import (
    GIB,
    ServingPlan,
    VllmFit,
    assess,
    available_bytes,
    kv_bytes,
    kv_layers,
    largest_length,
    weights_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.diagnosis.cite import Citer
    from firstfault.diagnosis.facts import Facts

__all__ = ["Joined", "join_servers", "serving_of", "wall_faults"]

KV_CACHE, MAX_LENGTH = "workload.vllm.kv-cache", "workload.vllm.max-model-len"
# vLLM decides by this very arithmetic; what is left of doubt is that the inputs may not belong together.
STRENGTH = 0.86
HALF = round(ROUNDING * GIB)
# Where vLLM chooses the block by the GPU: what its backends for MLA use.
MLA_BLOCKS = (64, 16, 32, 128)
GROUPED_SINCE = (0, 12, 0)
WINDOWS_SINCE = (0, 8, 4)
TRIED_PARALLEL = (2, 4, 8, 16)
# CUDA context, NCCL and the peak of a profiling run, at the least.
OTHER = GIB
ODD_DTYPES = ("nvfp4", "per_token_head", "ds_mla", "turboquant", "int4")


@dataclass
class Joined:
    """One server, the configuration that belongs to it, and what both say.

    Attributes:
        config: Line of the configuration that was used; None for none.
        fit: None where neither the log nor the configuration gives a number.
        reason: Why the largest length could not be computed; "" where it was, or nobody asked.
        certain: Whether every formula and rounding in question agrees on the wall.
        plan: What the numbers rest on.
    """

    server: Server
    config: Observation | None = None
    fit: VllmFit | None = None
    reason: str = ""
    certain: bool = False
    plan: ServingPlan | None = None


def join_servers(facts: Facts) -> list[Joined]:
    """Return every vLLM server of the input with the numbers that can be known of it."""
    configs = facts.signals.get("model.config", [])
    return [_join(server, configs) for server in read_servers(facts)]


def _join(server: Server, configs: list[Observation]) -> Joined:
    named = server.named
    if named is not None and named.largest and named.exact:
        # vLLM printed it all; the configuration can only repeat it.
        return Joined(server, fit=named, certain=True, plan=server.plan)
    chosen, reason = _choose(server, configs)
    if chosen is None:
        alone = _from_log_alone(server)
        return Joined(server, fit=alone, reason="" if alone and alone.largest and alone.exact else reason)
    computed = _compute(server, config_of(_fields(chosen)))
    computed.config = chosen if computed.fit is not None else None
    if named is not None:
        computed.fit = _completed(named, computed)
    elif computed.fit is None:
        computed.fit = _from_log_alone(server)
    return computed


def _fields(item: Observation) -> dict[str, str]:
    words = (word.partition("=") for word in item.text.split()[1:])
    return {key: value for key, sign, value in words if sign}


def _choose(server: Server, configs: list[Observation]) -> tuple[Observation | None, str]:
    """Return the configuration of a server's model, or why there is none."""
    if not configs:
        return None, "the model's config.json is not in the input"
    if len({item.text for item in configs}) == 1:
        return configs[0], ""
    name = server.model.rstrip("/").rpartition("/")[2]
    fitting = [item for item in configs if name and _is_named(item, name)]
    if len({item.text for item in fitting}) == 1:
        return fitting[0], ""
    which = f" of {server.model}" if server.model else ""
    return None, f"the input has {len(configs)} different config.json, and none is clearly the one{which}"


def _is_named(item: Observation, name: str) -> bool:
    own = _fields(item).get("_name_or_path", "").rstrip("/").rpartition("/")[2]
    parts = item.source.replace("!", "/").replace("--", "/").split("/")
    return own == name or name in parts


def _from_log_alone(server: Server) -> VllmFit | None:
    """Return what the log says without a configuration: what it names, or how many tokens its cache holds."""
    if server.named is not None:
        return server.named
    if server.requested is None or server.cache_tokens is None:
        return None
    fits = server.requested <= server.cache_tokens or server.past_cache
    return VllmFit(
        wall="none" if fits else "kv-cache",
        requested=server.requested,
        largest=max(server.cache_tokens, server.requested) if fits else server.cache_tokens,
        available=server.available,
        exact=not fits,
        summary=f"the KV cache holds {server.cache_tokens} tokens, one request may have {server.requested}"
        + ("" if fits else f"; the largest max_model_len that fits is {server.cache_tokens}"),
    )


def _compute(server: Server, config: dict[str, Any]) -> Joined:
    """Return what a configuration says for a server."""
    reason = not_covered(config) or _odd_options(server, config)
    plans = [] if reason else _plans(server, config)
    printed = server.named.needed if server.named is not None else None
    if plans and printed is not None and server.requested:
        agreeing = _agreeing(config, server, plans, printed)
        if not agreeing:
            ours = kv_bytes(config, server.requested, plans[0]) / GIB
            reason = (
                f"config.json gives {ours:.2f} GiB for {server.requested} tokens and the server printed "
                f"{printed / GIB:.2f} GiB: it is another model's, or an option is not in the log"
            )
            return Joined(server, reason=reason)
        plans = agreeing
    available, estimated = (None, True) if reason else _available(server, config)
    limit_changes = "rope" in server.changes or "overrides" in server.changes
    fit = assess(config, max_model_len=server.requested, available=available, plan=plans[0] if plans else None)
    if reason:
        fit = msgspec.structs.replace(fit, needed=None)
    if limit_changes:
        fit = _without_limit(config, fit, plans)
    if derived_length(config).key == "default" and server.requested is None:
        return Joined(server, reason="neither the log nor config.json says the length")
    joined = Joined(server, fit=fit, reason=reason, plan=plans[0] if plans else None)
    joined.certain = fit.wall == "max-position" and not limit_changes
    if plans and available is not None:
        joined.fit, joined.certain = _bounded(config, fit, plans, estimated=estimated)
    elif not reason and available is None:
        joined.reason = "no line says how much memory is left for the KV cache"
    return joined


def _odd_options(server: Server, config: dict[str, Any]) -> str:
    """Say which option or property of the checkpoint the formula does not cover; "" for none."""
    if server.changes and not ("rope" in server.changes or "overrides" in server.changes):
        name = server.changes.strip("'-").partition("=")[0].partition("'")[0]
        return f"an option changes what the cache takes ({name})"
    if any(name in server.plan.kv_cache_dtype for name in ODD_DTYPES):
        return f"a cache of {server.plan.kv_cache_dtype} keeps scales beside the values"
    quantization = config.get("quantization_config")
    if isinstance(quantization, dict) and server.plan.kv_cache_dtype == "auto":
        scheme = quantization.get("kv_cache_scheme") or quantization.get("kv_cache_quant_algo")
        if scheme:
            return "the checkpoint quantizes its KV cache, and the log does not say with what"
    return ""


def _plans(server: Server, config: dict[str, Any]) -> list[ServingPlan]:
    """Return the ways in which this server may count, the most likely first."""
    plans = [server.plan]
    if is_mla(config) and not server.block_size_said:
        plans = [msgspec.structs.replace(server.plan, block_size=size) for size in MLA_BLOCKS]
    kinds = kv_layers(config)
    if server.plan.windows == "whole" or all(layers.window is None for layers in kinds):
        return plans
    if server.version and server.version < WINDOWS_SINCE:
        return [msgspec.structs.replace(plan, windows="whole") for plan in plans]
    orders = ["kept", "grouped"] if len(kinds) > 1 else ["kept"]
    if server.version >= GROUPED_SINCE:
        orders.reverse()
    tokens = [server.plan.max_num_batched_tokens] if server.batched_tokens_said else [8192, 2048, 16384]
    return [
        msgspec.structs.replace(plan, windows=windows, max_num_batched_tokens=count)
        for plan in plans
        for windows in orders
        for count in tokens
    ]


def _agreeing(config: dict[str, Any], server: Server, plans: list[ServingPlan], printed: int) -> list[ServingPlan]:
    """Return the plans that give the figure which the server printed; a parallelism that no line says is tried too."""
    tried = list(plans)
    if not server.tensor_parallel_said:
        tried += [msgspec.structs.replace(plan, tensor_parallel_size=size) for plan in plans for size in TRIED_PARALLEL]
    length = server.requested or 0
    return [plan for plan in tried if abs(kv_bytes(config, length, plan) - printed) <= 2 * HALF]


def _available(server: Server, config: dict[str, Any]) -> tuple[int | None, bool]:
    """Return the bytes for the KV cache on one GPU, and whether they are an estimate from total memory and weights."""
    if server.named is not None and server.named.available is not None:
        return server.named.available, False
    if server.available is not None:
        return server.available, False
    if server.total is None:
        return None, True
    weights = server.weights
    if weights is None:
        shape = text_config(config)
        if not shape.get("vocab_size") or not_covered(config):
            return None, True
        weights = weights_bytes(config, server.plan.tensor_parallel_size) // server.plan.pipeline_parallel_size
    used = server.activations if server.activations is not None else OTHER
    return available_bytes(server.total, server.utilization or 0.9, weights, other=used), True


def _without_limit(config: dict[str, Any], fit: VllmFit, plans: list[ServingPlan]) -> VllmFit:
    """Return a fit for a server whose options change the model's own limit: only memory counts."""
    if fit.available is None or not plans or fit.needed is None:
        summary = "an option changes the model's limit"
        return VllmFit(wall="none", requested=fit.requested, largest=None, exact=False, summary=summary)
    largest = largest_length(config, fit.available, fit.requested, plans[0])
    short = fit.needed > fit.available
    summary = (
        f"one request of {fit.requested} tokens needs {fit.needed / GIB:.2f} GiB of KV cache on each GPU, "
        f"{fit.available / GIB:.2f} GiB are there; the largest max_model_len that fits is {largest}"
    )
    return msgspec.structs.replace(
        fit, wall="kv-cache" if short else "none", largest=largest, limit=None, summary=summary
    )


def _bounded(
    config: dict[str, Any], fit: VllmFit, plans: list[ServingPlan], *, estimated: bool
) -> tuple[VllmFit, bool]:
    """Add the length that fits whatever was rounded and whichever plan holds; say whether the wall is certain."""
    available, upper = fit.available or 0, max(fit.requested, int(fit.limit or 0), 1)
    margin = OTHER if estimated else HALF
    lowest = min(largest_length(config, available - margin, upper, plan) for plan in plans)
    cap = int(fit.limit) if fit.limit else upper
    safe = min(lowest, cap)
    least = min(kv_bytes(config, fit.requested, plan) for plan in plans)
    most = max(kv_bytes(config, fit.requested, plan) for plan in plans)
    certain = fit.wall == "max-position" or least > available + margin or most <= available - margin
    bounded = msgspec.structs.replace(
        fit,
        safe=None if safe == fit.largest else safe,
        exact=fit.exact and not estimated and safe == fit.largest,
        summary=("by an estimate from total memory and weights, " if estimated else "") + fit.summary,
    )
    return bounded, certain and not estimated


def _completed(named: VllmFit, computed: Joined) -> VllmFit:
    """Return what the server printed, with what it left out taken from the configuration."""
    fit = computed.fit
    if fit is None:
        return named
    if named.wall == "max-position":
        return named
    if named.wall == "no-memory" and fit.needed is not None:
        there = f", {fit.available / GIB:.2f} GiB are there" if fit.available is not None else ""
        needs = f"one request of {fit.requested} tokens needs {fit.needed / GIB:.2f} GiB of KV cache on each GPU"
        return msgspec.structs.replace(
            named,
            requested=fit.requested,
            needed=fit.needed,
            available=fit.available,
            limit=fit.limit,
            summary=f"{named.summary}; {needs}{there}",
        )
    if named.exact or fit.largest is None or not fit.largest:
        return named
    return msgspec.structs.replace(fit, wall=named.wall, needed=named.needed, summary=fit.summary)


def wall_faults(joined: Iterable[Joined]) -> list[Observation]:
    """Return the walls that nobody named and the arithmetic shows, and the lines that a named one rests on."""
    found: list[Observation] = []
    for one in joined:
        server, fit = one.server, one.fit
        if fit is None or fit.wall == "none":
            continue
        cause = MAX_LENGTH if fit.wall == "max-position" else KV_CACHE
        if server.named is None:
            line = server.asked if cause == MAX_LENGTH else server.memory or server.cache
            past = server.past_config if cause == MAX_LENGTH else server.past_cache
            if line is None or past or not one.certain:
                continue
            found.append(_derived(line, cause, "arithmetic", Role.ROOT, STRENGTH))
        found += [
            _derived(line, cause, "numbers", Role.CONTEXT, 0.0)
            for line in (one.config, server.asked, server.memory)
            if line is not None and line is not server.named_by
        ]
    return found


def _derived(line: Observation, cause: str, rule: str, role: Role, strength: float) -> Observation:
    return msgspec.structs.replace(
        line, signature=f"{cause}/derived-{rule}", cause=cause, role=role, strength=strength, fields={}
    )


def serving_of(joined: Iterable[Joined], cite: Citer) -> list[Serving]:
    """Return the report's entry for each server of which something is known.

    Args:
        joined: What `join_servers` returned.
        cite: Makes evidence of a line.
    """
    return [_entry(one, cite) for one in joined if one.fit is not None or one.reason]


def _entry(one: Joined, cite: Citer) -> Serving:
    server, plan = one.server, one.plan or one.server.plan
    fit = one.fit or VllmFit(wall="none", requested=server.requested or 0, largest=None, exact=False)
    # The model's limit alone does not say what fits.
    open_question = fit.wall == "none" and bool(one.reason)
    largest = None if open_question else fit.largest
    lines = (server.named_by, server.asked, server.memory or server.cache, one.config)
    return Serving(
        source=server.source,
        model=server.model,
        config=one.config.source if one.config else None,
        wall=None if open_question else fit.wall,
        requested=fit.requested or None,
        limit=fit.limit,
        largest=largest,
        safe=fit.safe if fit.safe is not None else largest,
        needed_bytes=fit.needed,
        available_bytes=fit.available if fit.available is not None else server.available,
        exact=fit.exact and largest is not None,
        tensor_parallel_size=plan.tensor_parallel_size,
        kv_cache_dtype=plan.kv_cache_dtype,
        summary="" if open_question else fit.summary,
        unknown=one.reason,
        evidence=[cite(line) for line in _distinct(lines)],
    )


def _distinct(lines: Iterable[Observation | None]) -> list[Observation]:
    kept: dict[tuple[str, int | None, str], Observation] = {}
    for line in lines:
        if line is not None:
            kept.setdefault((line.source, line.line, line.text), line)
    return list(kept.values())
