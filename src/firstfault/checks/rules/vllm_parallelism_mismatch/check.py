"""Parallelism against the GPUs of the Pod and the heads of the model."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.serving import Server, servers

_SPREAD = ("distributed-executor-backend", "nnodes", "data-parallel-size", "data-parallel-address")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge servers that write a parallelism or have several GPUs."""
    for server in servers(inventory):
        if server.gpus and ("tensor-parallel-size" in server.options or server.gpus > 1):
            yield from _judge(server)


def _judge(server: Server) -> Iterator[Outcome]:
    tensor = int(server.number("tensor-parallel-size", 1))
    pipeline = int(server.number("pipeline-parallel-size", 1))
    gpus, subject = server.gpus, server.subject
    heads = server.config.get("num_attention_heads") if server.config else None
    if isinstance(heads, int) and tensor and heads % tensor:
        yield failed(server.place, subject, f"the model has {heads} attention heads, which {tensor} does not divide")
        return
    if server.several_pods or any(name in server.options for name in _SPREAD):
        return  # the processes are spread over Pods
    if tensor * pipeline > gpus:
        yield failed(
            server.place, subject, f"{tensor} x {pipeline} processes need as many GPUs; the container has {gpus}"
        )
    elif tensor * pipeline < gpus:
        yield failed(server.place, subject, f"{tensor} x {pipeline} processes use {tensor * pipeline} of {gpus} GPUs")
    else:
        yield passed(server.place, subject)
