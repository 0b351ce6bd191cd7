"""What a vLLM server said about its options and its memory, read from the lines of one start of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firstfault.model.vllm_config import tokens_of
from firstfault.model.vllm_log import fit_from_text
from firstfault.model.vllm_memory import GIB, ServingPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from firstfault.diagnosis.facts import Facts
    from firstfault.model import Observation
    from firstfault.model.vllm_memory import VllmFit

__all__ = ["WALLS", "Server", "read_servers"]

WALLS = frozenset({"workload.vllm.kv-cache", "workload.vllm.max-model-len"})
# The V1 engine prints the size of its cache behind the check, the V0 engine before it.
BLOCK_OF_V0 = 16


@dataclass
class Server:
    """One start of one server; the last one of its source.

    Attributes:
        requested: `max_model_len` as it was asked for or resolved; None where no line says, or it was left to vLLM.
        asked: The line that says so.
        available: Bytes for the KV cache on the GPU that has least.
        memory: The line that says so.
        cache_tokens: Tokens that the KV cache holds.
        cache: The line that says so.
        engine: "V0", "V1" or "".
        version: As (0, 11, 0); () where no line says.
        past_config: Whether a line shows that the length passed the first wall.
        past_cache: Whether a line shows that the cache was large enough.
        changes: An option that makes the arithmetic another one, as the log spells it; "" for none.
        named: What the server itself printed about a wall.
        named_by: The line that says so.
    """

    source: str
    model: str = ""
    requested: int | None = None
    asked: Observation | None = None
    available: int | None = None
    memory: Observation | None = None
    cache_tokens: int | None = None
    cache: Observation | None = None
    total: int | None = None
    utilization: float | None = None
    weights: int | None = None
    activations: int | None = None
    engine: str = ""
    version: tuple[int, ...] = ()
    tensor_parallel_said: bool = False
    batched_tokens_said: bool = False
    block_size_said: bool = False
    plan: ServingPlan = field(default_factory=ServingPlan)
    past_config: bool = False
    past_cache: bool = False
    changes: str = ""
    named: VllmFit | None = None
    named_by: Observation | None = None


def read_servers(facts: Facts) -> list[Server]:
    """Return the servers of the input, one for each source that speaks of one."""
    by_source: dict[str, dict[str, list[Observation]]] = {}
    for name, items in facts.signals.items():
        if name.startswith("vllm."):
            for item in items:
                by_source.setdefault(item.source, {}).setdefault(name, []).append(item)
    for item in facts.faults:
        if item.cause in WALLS and fit_from_text(item.text) is not None:
            by_source.setdefault(item.source, {}).setdefault("wall", []).append(item)
    servers = [_read(source, _last_start(found)) for source, found in sorted(by_source.items())]
    return [one for one in servers if one.asked or one.memory or one.cache or one.named]


def _position(item: Observation) -> tuple[int, int, float]:
    return item.order or 0, item.offset or 0, item.time or 0.0


def _last_start(found: dict[str, list[Observation]]) -> dict[str, list[Observation]]:
    """Keep what stands behind the last start of the server: a restarted one may have other options."""
    starts = found.get("vllm.start") or found.get("vllm.engine") or []
    begin = max(map(_position, starts), default=(0, 0, 0.0))
    kept = {
        name: sorted((item for item in items if _position(item) >= begin), key=_position)
        for name, items in found.items()
    }
    version = sorted(found.get("vllm.start", []), key=_position)  # it stands before the options
    command = [item for item in found.get("vllm.option.length", []) if item.fields.get("cli")]
    if not kept.get("vllm.option.length") and command:
        kept["vllm.option.length"] = sorted(command, key=_position)  # the shell's own line stands before the start
    return {**kept, "vllm.start": version}


def _read(source: str, found: dict[str, list[Observation]]) -> Server:
    server = Server(source)
    _read_options(server, found)
    _read_memory(server, found)
    _read_progress(server, found)
    return server


def _read_options(server: Server, found: dict[str, list[Observation]]) -> None:
    lengths = [item for item in found.get("vllm.option.length", ()) if _length(item) is not None]
    if lengths:
        server.asked, server.requested = lengths[-1], _length(lengths[-1])
    server.model = _last(found.get("vllm.option.model", ())) or ""
    server.utilization = _number(_last(found.get("vllm.option.utilization", ())))
    server.changes = _last(found.get("vllm.option.changes-arithmetic", ())) or ""
    tensor = _last(found.get("vllm.option.tensor-parallel", ()))
    block = _last(found.get("vllm.option.block-size", ()))
    batched = _last(found.get("vllm.option.batched-tokens", ()))
    server.tensor_parallel_said, server.block_size_said = tensor is not None, block is not None
    server.batched_tokens_said = batched is not None
    _read_engine(server, found)
    server.plan = ServingPlan(
        tensor_parallel_size=_positive(tensor, 1),
        pipeline_parallel_size=_positive(_last(found.get("vllm.option.pipeline-parallel", ())), 1),
        kv_cache_dtype=_cache_dtype(found.get("vllm.option.cache-dtype", ())),
        dtype=_last(found.get("vllm.option.dtype", ())) or "auto",
        block_size=_positive(block, 16),
        max_num_batched_tokens=_positive(batched, 8192),
        windows="whole" if server.engine == "V0" or found.get("vllm.hybrid-cache-off") else "kept",
    )


def _read_engine(server: Server, found: dict[str, list[Observation]]) -> None:
    versions = [
        item.fields["version"]
        for name in ("vllm.start", "vllm.engine")
        for item in found.get(name, ())
        if "version" in item.fields
    ]
    if versions:
        server.version = tuple(int(part) for part in versions[-1].split("."))
    engines = found.get("vllm.engine", ())
    if any("blocks" in item.fields for item in found.get("vllm.memory.cache", ())):
        server.engine = "V0"
    elif any("tokens" in item.fields for item in found.get("vllm.memory.cache", ())):
        server.engine = "V1"
    elif engines:
        server.engine = engines[-1].fields.get("engine", "V0")
    elif any("v0" in item.fields for item in found.get("vllm.memory.available", ())):
        server.engine = "V0"


def _read_memory(server: Server, found: dict[str, list[Observation]]) -> None:
    said = found.get("vllm.memory.available", [])
    if said:
        least = min(said, key=lambda item: _number(_value(item)) or 0.0)
        server.memory, server.available = least, _bytes(_value(least))
    cache = found.get("vllm.memory.cache", [])
    if cache:
        tokens = [_tokens(item, server.plan.block_size) for item in cache]
        server.cache, server.cache_tokens = cache[tokens.index(min(tokens))], min(tokens)
    server.total = _bytes(_last(found.get("vllm.memory.total", ()), _total))
    server.weights = _bytes(_last(found.get("vllm.memory.weights", ())))
    server.activations = _bytes(_last(found.get("vllm.memory.activations", ())))


def _read_progress(server: Server, found: dict[str, list[Observation]]) -> None:
    used = any("used" in item.fields or "engine" in item.fields for item in found.get("vllm.option.length", ()))
    serving = bool(found.get("vllm.serving"))
    server.past_cache = serving or (server.engine == "V1" and server.cache is not None)
    loaded = bool(found.get("vllm.engine") or found.get("vllm.weights"))
    server.past_config = server.past_cache or used or loaded or server.memory is not None
    walls = found.get("wall", [])
    numbered = [item for item in walls if (fit := fit_from_text(item.text)) and fit.wall != "no-memory"]
    for item in (numbered or walls)[-1:]:
        server.named, server.named_by = fit_from_text(item.text), item
        if server.named is not None and server.named.requested:
            server.requested, server.asked = server.named.requested, server.asked or item


def _value(item: Observation) -> str | None:
    """Return the one value that a line of an option carries, whichever of its spellings it has."""
    return next(iter(item.fields.values()), None)


def _total(item: Observation) -> str | None:
    return next((item.fields[name] for name in ("v0", "v1", "torch") if name in item.fields), None)


def _last(items: Iterable[Observation], value: Callable[[Observation], str | None] = _value) -> str | None:
    found = [text for item in items if (text := value(item)) is not None]
    return found[-1] if found else None


def _length(item: Observation) -> int | None:
    length = tokens_of(_value(item) or "")
    return length if length is not None and 0 < length < 10**12 else None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def _positive(text: str | None, otherwise: int) -> int:
    number = int(text) if text is not None and text.isdecimal() and len(text) < 10 else 0
    return number or otherwise


def _bytes(gib: str | None) -> int | None:
    number = _number(gib)
    return None if number is None else round(number * GIB)


def _tokens(item: Observation, block_size: int) -> int:
    if "blocks" in item.fields:
        return int(item.fields["blocks"][:15]) * (block_size or BLOCK_OF_V0)
    return int(item.fields["tokens"].replace(",", "")[:15] or 0)


def _cache_dtype(items: Iterable[Observation]) -> str:
    """Return the dtype of the cache; what the engine resolved (`fp8`) beats an `auto` printed elsewhere."""
    words = [text for item in items if (text := _value(item)) is not None]
    return next((word for word in reversed(words) if word != "auto"), "auto")
