"""A switch in this process that hands frames on late: delay without netem, which many kernels do not have."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Relay"]

_LARGEST = 1 << 17
_IDLE_S = 0.1


class Relay:
    """Forwards every frame of one cable to all others after a delay, from a thread, until it is closed.

    Args:
        sockets: One packet socket for each cable.
        seconds: The delay, in each direction.
    """

    def __init__(self, sockets: Sequence[socket.socket], seconds: float) -> None:
        self._sockets = list(sockets)
        self._delay = seconds
        self._closed = threading.Event()
        for sock in self._sockets:
            sock.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="relay", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop; frames under way are lost."""
        self._closed.set()
        self._thread.join()
        for sock in self._sockets:
            sock.close()

    def _run(self) -> None:
        waiting: deque[tuple[float, socket.socket, bytes]] = deque()
        with selectors.DefaultSelector() as selector:
            for sock in self._sockets:
                selector.register(sock, selectors.EVENT_READ)
            while not self._closed.is_set():
                now = time.monotonic()
                for key, _ in selector.select(max(0.0, waiting[0][0] - now) if waiting else _IDLE_S):
                    assert isinstance(key.fileobj, socket.socket)
                    with contextlib.suppress(OSError):
                        frame = key.fileobj.recv(_LARGEST)
                        waiting.append((time.monotonic() + self._delay, key.fileobj, frame))
                while waiting and waiting[0][0] <= time.monotonic():
                    _, source, frame = waiting.popleft()
                    for target in self._sockets:
                        if target is not source:
                            with contextlib.suppress(OSError):  # its queue is full: a switch drops it too
                                target.send(frame)
