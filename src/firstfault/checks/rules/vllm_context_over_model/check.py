"""The first wall of vLLM: max-model-len against the model's own configuration."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.helm_values import render_hint
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.serving import servers, unread_charts
from firstfault.model.vllm_memory import assess


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge servers that set a length and whose model configuration is among the inputs."""
    for server in servers(inventory):
        length = server.max_model_len
        if length is None or server.allows_long:
            continue
        subject = server.subject
        if server.config is None:
            why = f"whether the model allows {length} tokens is not known; not among the inputs: {server.missing[0]}"
            yield unknown(server.place, subject, why)
            continue
        fit = assess(server.config, max_model_len=length)
        if fit.limit is None:
            yield unknown(server.place, subject, "config.json does not say the length; the model's class does")
        elif fit.wall == "max-position":
            yield failed(server.place, subject, fit.summary)
        else:
            yield passed(server.place, subject, fit.summary)
    for release in unread_charts(inventory):
        why = f"which length the Helm values give to vLLM is not known; {render_hint(release.place.path)}"
        yield unknown(release.place, release.subject, why)
