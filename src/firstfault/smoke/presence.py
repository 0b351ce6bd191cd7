"""Knows while the backend's rungs are climbed whether the peers are still there.

The connections of the TCP rung stay open until a rank has its result. A rank that ends says so in one line; one that is
killed closes its connection without a word, and one whose node is gone answers no keep-alive. A backend would notice
neither before its own timeout.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PROBED", "Loss", "Presence", "keep_alive"]

PROBED = b"p"
"""What a rank sends when it has probed its neighbours, before the connection is only held."""

# Seconds: idle before the first probe, between probes, and how many may stay unanswered. Linux' names.
_KEEP_ALIVE = (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 1), ("TCP_KEEPCNT", 3))
# What this rank's backend says by itself about a peer's end is better evidence, so it gets this long to say it.
_GRACE_S = 1.0
_LONGEST_LINE = 1 << 16


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """A peer that will not take part any more.

    Attributes:
        rank: Its rank.
        vanished: True: without a word · False: it gave up and said why.
        cause: Cause id that the peer found; "" when it vanished or found none.
        why: One sentence.
    """

    rank: int
    vanished: bool
    cause: str = ""
    why: str


def keep_alive(connection: socket.socket) -> None:
    """Let the kernel notice a host that is gone within seconds."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE:
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


class Presence:
    """The open connections to other ranks.

    Args:
        connections: By rank: on rank 0 to every other one, elsewhere to rank 0.
    """

    def __init__(self, connections: Mapping[int, socket.socket]) -> None:
        self._open = dict(connections)
        self._heard: dict[int, bytes] = dict.fromkeys(self._open, b"")
        self._loss: Loss | None = None
        self._since = 0.0
        for connection in self._open.values():
            keep_alive(connection)
            connection.setblocking(False)

    def lost(self) -> Loss | None:
        """Return the first peer that was lost, once this rank had its time to notice by itself; None: none is."""
        for rank, connection in list(self._open.items()):
            self._hear(rank, connection)
        return self._loss if self._loss is not None and time.monotonic() - self._since >= _GRACE_S else None

    def _hear(self, rank: int, connection: socket.socket) -> None:
        try:
            data = connection.recv(_LONGEST_LINE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._heard[rank] = heard = (self._heard[rank] + data).lstrip(PROBED)[-_LONGEST_LINE:]
        if data and b"\n" not in heard:
            return
        del self._open[rank]
        connection.close()
        if not data:
            self._note(Loss(rank=rank, vanished=True, why=f"rank {rank} went away: its process or its node ended"))
            return
        with contextlib.suppress(ValueError, AttributeError):
            said = json.loads(heard.partition(b"\n")[0])
            if said.get("status") != "ok":
                why = f"rank {rank} gave up: {str(said.get('why', ''))[:500]}"
                self._note(Loss(rank=rank, vanished=False, cause=str(said.get("cause", "")), why=why))

    def _note(self, loss: Loss) -> None:
        if self._loss is None:
            self._loss, self._since = loss, time.monotonic()

    def close(self, *, ok: bool, cause: str = "", why: str = "") -> None:
        """Tell the others how this rank ended, and close the connections."""
        line = json.dumps({"status": "ok" if ok else "failed", "cause": cause, "why": why}).encode() + b"\n"
        for connection in self._open.values():
            with contextlib.suppress(OSError), contextlib.closing(connection):
                connection.setblocking(True)
                connection.settimeout(1)
                connection.sendall(line)
                connection.shutdown(socket.SHUT_WR)
        self._open.clear()
