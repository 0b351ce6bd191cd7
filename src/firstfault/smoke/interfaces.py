"""Would the backend find an interface? Answered before it starts, from the variables that it will read."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["interface_problem", "matching"]


def matching(wanted: str, present: Sequence[str]) -> list[str]:
    """Return the interfaces that a value of NCCL_SOCKET_IFNAME selects.

    NCCL user guide: a comma-separated list of prefixes; `=` before it asks for exact names, `^` excludes.
    """
    exact = wanted.startswith(("=", "^="))
    exclude = wanted.startswith("^")
    names = [name for name in wanted.lstrip("^=").split(",") if name]

    def selected(name: str) -> bool:
        return any(name == each if exact else name.startswith(each) for each in names)

    return [name for name in present if selected(name) != exclude]


def interface_problem(
    backend: str, environ: Mapping[str, str], present: Sequence[str] | None = None, *, one_host: bool = False
) -> tuple[str, str] | None:
    """Return (cause id, one sentence) when the interface that is asked for cannot work, else None.

    Args:
        backend: "nccl" or "gloo".
        environ: Where NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME stands.
        present: Names of this host's interfaces; None: ask the kernel.
        one_host: All ranks are on this host, so that loopback is fine.
    """
    variable = "NCCL_SOCKET_IFNAME" if backend == "nccl" else "GLOO_SOCKET_IFNAME"
    wanted = environ.get(variable, "")
    if not wanted:
        return None
    cause = f"network.{backend}.interface"
    names = list(present) if present is not None else [name for _, name in socket.if_nameindex()]
    found = matching(wanted, names) if backend == "nccl" else [each for each in wanted.split(",") if each in names]
    if not found:
        return cause, f"{variable}={wanted} names no interface of this host (it has {', '.join(names)})"
    if all(name == "lo" or name.startswith("lo:") for name in found) and not one_host:
        return cause, f"{variable}={wanted} selects loopback, which no other host can reach"
    return None
