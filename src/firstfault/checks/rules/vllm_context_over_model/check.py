"""The first wall of vLLM: max-model-len against the model's own configuration."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.serving import servers
from firstfault.model.vllm_memory import assess


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge servers whose model configuration is among the inputs."""
    for server in servers(inventory):
        length = server.max_model_len
        if (
            server.config is None
            or length is None
            or "VLLM_ALLOW_LONG_MAX_MODEL_LEN" in str(server.container.body.get("env"))
        ):
            continue
        fit = assess(server.config, max_model_len=length)
        subject = server.container.subject
        if fit.limit is None:
            yield unknown(server.place, subject, "config.json does not say the length; the model's class does")
        elif fit.wall == "max-position":
            yield failed(server.place, subject, fit.summary)
        else:
            yield passed(server.place, subject, fit.summary)
