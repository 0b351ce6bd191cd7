"""How the tool and the world's first process talk: JSON messages with file descriptors over one Unix socket pair.

Each message is one packet (SOCK_SEQPACKET), so there is no framing to get wrong, and the end of either side shows at
once as end of file: for the first process that is the order to end the world.
"""

from __future__ import annotations

import array
import json
import socket
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MAX_MESSAGE", "receive", "send"]

MAX_MESSAGE = 1 << 20
_MAX_FDS = 16


def send(sock: socket.socket, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send one message; the other side gets duplicates of the descriptors.

    Raises:
        OSError: The other side is gone (EPIPE, ECONNRESET), or the message is too large (EMSGSIZE).
    """
    control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([json.dumps(message, separators=(",", ":")).encode()], control, socket.MSG_NOSIGNAL)


def receive(sock: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Receive one message and its descriptors (close-on-exec, owned by the caller); None at the end of the stream.

    Raises:
        OSError: The socket is broken.
    """
    data, control, _, _ = sock.recvmsg(
        MAX_MESSAGE, socket.CMSG_SPACE(_MAX_FDS * array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
    )
    fds = array.array("i")
    for level, kind, payload in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    if not data:
        return None, list(fds)
    message: dict[str, Any] = json.loads(data)
    return message, list(fds)
