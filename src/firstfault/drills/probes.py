"""Measures which paths are open: real connections between nodes, to listeners that exist for that moment.

A probe of the master port must not collide with the job, so probes run before the job of a phase, and their listeners
are gone when they end. The sockets live in the nodes' networks; this process only waits on them.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
import struct
import time
from typing import TYPE_CHECKING, Literal, Protocol

from firstfault.model.drill import ProbeResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.drills.topology import Probe, Topology

__all__ = ["probe_paths"]

# Nodes are microseconds apart. A SYN without an answer after this long was dropped; the kernel completes a handshake
# by itself, however busy the machine is.
_TIMEOUT_S = 0.75
# Where nothing is expected to be lost there is time for the kernel's own second and third SYN (after 1 s and 3 s).
_PATIENT_TIMEOUT_S = 3.5
# The clock of a probe moves by this much for each look at most: a longer time is one in which this process did not run,
# which says nothing about the path.
_LOOK_S = 0.05
_UDP_TRIES = 3

Result = Literal["open", "dropped", "refused", "unreachable"]


class _Network(Protocol):
    """What opens a socket in a node's network (act.world.LocalWorld)."""

    def socket(self, where: str, kind: Literal["tcp", "udp"], bind: tuple[str, int] | None = None) -> socket.socket: ...


class _Attempt:
    """One probe under way."""

    def __init__(self, probe: Probe, sock: socket.socket, address: tuple[str, int]) -> None:
        self.probe = probe
        self.sock = sock
        self.address = address
        self.started = time.monotonic()
        self.ended = self.started
        self.result: Result | None = None

    def finish(self, result: Result) -> None:
        if self.result is None:
            self.result = result
            self.ended = time.monotonic()


def probe_paths(
    network: _Network, topology: Topology, probes: Sequence[Probe], *, patient: bool = False
) -> list[ProbeResult]:
    """Try all paths at once.

    Args:
        network: Opens sockets in the nodes.
        topology: Where the nodes are.
        probes: The paths. TCP counts as open when the handshake completes, UDP when an answer comes back.
        patient: No path is expected to be closed, so wait longer for one that seems to be.

    Raises:
        OSError: A listener cannot be made because something on that node holds its port.
    """
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for target, protocol, port in {(probe.target, probe.protocol, probe.port) for probe in probes}:
            listener = stack.enter_context(network.socket(target, protocol, ("0.0.0.0", port)))  # noqa: S104 - a netns
            listener.setblocking(False)
            selector.register(listener, selectors.EVENT_READ, None)
        attempts = []
        for probe in probes:
            sock = stack.enter_context(network.socket(probe.source, probe.protocol))
            attempts.append(_begin(probe, sock, (topology.node(probe.target).ip, probe.port), selector))
        _wait(attempts, selector, _PATIENT_TIMEOUT_S if patient else _TIMEOUT_S)
    return [
        ProbeResult(
            id=attempt.probe.id,
            source=attempt.probe.source,
            target=attempt.probe.target,
            protocol=attempt.probe.protocol,
            port=attempt.probe.port,
            title=attempt.probe.title,
            result=attempt.result or "dropped",
            reachable=attempt.result == "open",
            seconds=round(attempt.ended - attempt.started, 4),
        )
        for attempt in attempts
    ]


def _begin(probe: Probe, sock: socket.socket, address: tuple[str, int], selector: selectors.BaseSelector) -> _Attempt:
    attempt = _Attempt(probe, sock, address)
    sock.setblocking(False)
    if probe.protocol == "tcp":
        # Close with a reset: the port must be free at once for the job, without TIME_WAIT.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        selector.register(sock, selectors.EVENT_WRITE, attempt)
    else:
        selector.register(sock, selectors.EVENT_READ, attempt)
    number = sock.connect_ex(address)
    if number not in {0, errno.EINPROGRESS}:
        attempt.finish(_meaning(number))
    elif probe.protocol == "udp":
        _ask(attempt)
    return attempt


def _ask(attempt: _Attempt) -> None:
    try:
        attempt.sock.send(b"?")
    except OSError as error:
        attempt.finish(_meaning(error.errno or 0))


def _meaning(number: int) -> Result:
    """Say what an error of a connection attempt means for the path."""
    if number == errno.ECONNREFUSED:
        return "refused"
    # EPERM: this node's own egress rules dropped it; a datagram's sender is told.
    return "dropped" if number in {errno.EPERM, errno.ETIMEDOUT, errno.EAGAIN} else "unreachable"


def _wait(attempts: list[_Attempt], selector: selectors.BaseSelector, timeout: float) -> None:
    waited = 0.0
    resend = [timeout * part / _UDP_TRIES for part in range(1, _UDP_TRIES)]
    while any(attempt.result is None for attempt in attempts) and waited < timeout:
        if resend and waited >= resend[0]:
            resend.pop(0)
            for attempt in attempts:
                if attempt.result is None and attempt.probe.protocol == "udp":
                    _ask(attempt)
        began = time.monotonic()
        for key, _ in selector.select(_LOOK_S):
            assert isinstance(key.fileobj, socket.socket)
            if key.data is None:
                _serve(key.fileobj)
            else:
                _advance(key.data, selector)
        waited += min(time.monotonic() - began, _LOOK_S)
    for attempt in attempts:
        attempt.finish("dropped")


def _serve(listener: socket.socket) -> None:
    """Answer a datagram; take a connection and leave it."""
    with contextlib.suppress(OSError):
        if listener.type == socket.SOCK_DGRAM:
            data, peer = listener.recvfrom(16)
            listener.sendto(data, peer)
        else:
            listener.accept()[0].close()


def _advance(attempt: _Attempt, selector: selectors.BaseSelector) -> None:
    if attempt.probe.protocol == "tcp":
        number = attempt.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        selector.unregister(attempt.sock)
    else:
        try:
            attempt.sock.recv(16)
            number = 0
        except OSError as error:
            number = error.errno or 0
    attempt.finish(_meaning(number) if number else "open")
