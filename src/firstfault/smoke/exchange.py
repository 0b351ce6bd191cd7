"""The TCP rung: can the ranks reach each other, both ways, on the master port and on the ports that backends use?

Rank 0 listens on the master port, every rank on a port that the kernel chooses (as NCCL and gloo do). The others join
rank 0, which hands the list of all listeners round; then every rank connects to the next rank, to the one before it,
and to rank 0. One short attempt tells a drop (no answer) from a refusal (an answer at once).
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from firstfault.smoke.presence import PROBED

if TYPE_CHECKING:
    from firstfault.smoke.options import Options

__all__ = ["Attempt", "Exchange", "attempt", "exchange", "listener"]

State = Literal["open", "dropped", "refused", "unreachable"]
_RETRY_S = 0.25
_MOMENT_S = 0.2
"""No sleep is longer: a signal that comes on the way to it would wait for its end."""
_LINE_LIMIT = 1 << 20
_HELLO = b"firstfault-smoke/1 "


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One connection attempt: to whom, how it went, how long it took in seconds."""

    peer: str
    port: int
    state: State
    seconds: float

    def line(self, source: str) -> str:
        """Return it in the grammar of docs/canonical-lines.md."""
        return f"reachability {source} -> {self.peer} tcp {self.port} {self.state} by=probe"


class Exchange(msgspec.Struct, kw_only=True):
    """What the TCP rung found.

    Attributes:
        joined: Ranks that reached rank 0 (known to rank 0, and to the others once the list was handed round).
        to_master: The attempt that counts towards the master port; None on rank 0.
        to_peers: Attempts to other ranks' listeners.
        first_sign: Time (monotonic) of the first attempt that reached a host, or got no answer; None: none at all.
        held: Connections that stay open, by the other end's rank: the caller closes them.
    """

    joined: list[int]
    to_master: Attempt | None = None
    to_peers: list[Attempt] = []
    first_sign: float | None = None
    held: dict[int, Any] = {}


def attempt(address: tuple[str, int], peer: str, seconds: float) -> tuple[Attempt, socket.socket | None]:
    """Connect once; return how it went and, when it is open, the socket.

    Of a name with several addresses, such as one of each family, each is tried. What tells most of the host counts: a
    refusal is an answer, and an address that cannot be reached at all may only be of the family that is not routed.
    """
    started = time.monotonic()
    state: State
    connection: socket.socket | None = None
    try:
        connection = socket.create_connection(address, timeout=seconds, all_errors=True)
        state = "open"
    except ExceptionGroup as errors:  # one for each address
        refused = errors.subgroup(ConnectionRefusedError)
        state = "refused" if refused else "dropped" if errors.subgroup(TimeoutError) else "unreachable"
    except OSError:  # the name does not resolve
        state = "unreachable"
    took = round(time.monotonic() - started, 3)
    return Attempt(peer=peer, port=address[1], state=state, seconds=took), connection


def _read_line(connection: socket.socket) -> dict[str, Any] | None:
    """Read one JSON line; None when the other end is not one of us or goes away."""
    data = bytearray()
    with contextlib.suppress(OSError):
        while not data.endswith(b"\n") and len(data) < _LINE_LIMIT:
            chunk = connection.recv(65536)
            if not chunk:
                break
            data += chunk
    if not data.startswith(_HELLO):
        return None
    try:
        found = json.loads(data[len(_HELLO) :])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


class _Greeting(msgspec.Struct, frozen=True):
    """What a rank says when it joins: itself, where it listens, and rank 0's address as it sees it."""

    rank: int
    port: int
    host: str
    master: str


def _greeting(connection: socket.socket) -> _Greeting | None:
    """Read a rank's greeting; None when it is something else that connected."""
    try:
        return msgspec.convert(_read_line(connection), _Greeting)
    except msgspec.ValidationError:
        return None


def _send_line(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(_HELLO + json.dumps(message).encode() + b"\n")


def listener(port: int) -> socket.socket:
    """Listen on a port of every address of this host, IPv6 and IPv4: peers may know the name by either.

    Raises:
        OSError: The port is taken.
    """
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=both)


def _plain(address: str) -> str:
    """Return the IPv4 address of a peer that came by IPv4 to a socket of both families, else the address as it is."""
    return address.removeprefix("::ffff:") if "." in address else address


def _accept_all(server: socket.socket, stop: threading.Event) -> None:
    """Accept and close connections: peers that probe this rank's own port."""
    server.settimeout(0.1)
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            connection, _ = server.accept()
            connection.close()


def exchange(options: Options, source: str) -> Exchange:
    """Run the TCP rung on this rank.

    Raises:
        OSError: Rank 0 cannot listen on the master port (it is in use).
    """
    stop = threading.Event()
    with listener(0) as mine:
        thread = threading.Thread(target=_accept_all, args=(mine, stop), daemon=True)
        thread.start()
        try:
            port = int(mine.getsockname()[1])
            return _lead(options, source, port) if options.rank == 0 else _follow(options, source, port)
        finally:
            stop.set()
            thread.join()


def _probe_peers(options: Options, table: dict[str, Any]) -> list[Attempt]:
    """Connect to the next rank, the one before, and rank 0: enough to see every direction of a ring."""
    size, me = options.world_size, options.rank
    found = []
    for rank in sorted({(me + 1) % size, (me - 1) % size, 0} - {me}):
        entry = table.get(str(rank))
        if entry:
            made, connection = attempt((entry["address"], entry["port"]), entry["host"], options.limits.tcp)
            found.append(made)
            if connection:
                connection.close()
    return found


def _lead(options: Options, source: str, port: int) -> Exchange:
    """Rank 0: let the others join, hand the list round, probe, collect who could reach whom."""
    table: dict[str, Any] = {}
    joined: dict[int, socket.socket] = {}
    first_sign = None
    deadline = time.monotonic() + options.limits.wait
    with listener(options.master[1]) as server, contextlib.ExitStack() as stack:
        while len(joined) < options.world_size - 1 and (left := deadline - time.monotonic()) > 0:
            server.settimeout(min(left, _MOMENT_S))
            try:
                connection, address = server.accept()
            except TimeoutError:
                continue
            connection.settimeout(options.limits.tcp)
            hello = _greeting(connection)
            if hello is None or not 0 < hello.rank < options.world_size:
                connection.close()
                continue
            rank = hello.rank
            if first_sign is None:
                first_sign = time.monotonic()
            if old := joined.pop(rank, None):
                old.close()
            joined[rank] = stack.enter_context(contextlib.closing(connection))
            table[str(rank)] = {"address": _plain(address[0]), "port": hello.port, "host": hello.host[:253]}
            if "0" not in table:
                table["0"] = {"address": hello.master, "port": port, "host": source}
        for connection in joined.values():
            with contextlib.suppress(OSError):
                _send_line(connection, {"table": table})
        mine = _probe_peers(options, table)
        _await_peers(joined, options)
        stack.pop_all()
    return Exchange(joined=sorted([0, *joined]), to_peers=mine, first_sign=first_sign, held=dict(joined))


def _await_peers(joined: dict[int, socket.socket], options: Options) -> None:
    """Wait until every peer has probed (it says so, or is gone), so that no listener goes away too early."""
    for connection in joined.values():
        connection.settimeout(4 * options.limits.tcp)
        with contextlib.suppress(OSError):
            if connection.recv(1, socket.MSG_PEEK) == PROBED:
                connection.recv(1)


def _follow(options: Options, source: str, port: int) -> Exchange:
    """Another rank: join rank 0, get the list, probe the neighbours."""
    deadline = time.monotonic() + options.limits.wait
    first_sign = None
    master = f"{options.master[0]}"
    while True:
        made, connection = attempt(options.master, master, options.limits.tcp)
        if first_sign is None and made.state in ("open", "dropped"):
            first_sign = time.monotonic() - made.seconds
        # A refusal may be a master that has not started; a silence is not: a host answers even for a closed port.
        if connection is not None or made.state in ("dropped", "unreachable") or time.monotonic() > deadline:
            break
        time.sleep(_RETRY_S)
    if connection is None and made.state in ("dropped", "unreachable"):
        # Once more: one lost packet is not a firewall.
        made, connection = attempt(options.master, master, options.limits.tcp)
    if connection is None:
        return Exchange(joined=[], to_master=made, first_sign=first_sign)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.closing(connection))
        address = _plain(str(connection.getpeername()[0]))
        connection.settimeout(options.limits.wait + options.limits.tcp)
        with contextlib.suppress(OSError):
            _send_line(connection, {"rank": options.rank, "port": port, "host": source, "master": address})
        answer = _read_line(connection)
        table = (answer or {}).get("table") or {}
        peers = _probe_peers(options, table)
        with contextlib.suppress(OSError):
            connection.sendall(PROBED)
        # The neighbours may still be probing this rank's listener.
        time.sleep(min(0.2, options.limits.tcp))
        stack.pop_all()
    return Exchange(
        joined=sorted(map(int, table)), to_master=made, to_peers=peers, first_sign=first_sign, held={0: connection}
    )
