"""Netlink framing: messages, attributes, and one exchange with the kernel. Plain `socket` and `struct`, no dependency.

The controller builds requests and reads replies; the world's first process, which has the capabilities, sends them.
Layout: include/uapi/linux/netlink.h, nfnetlink.h.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence

__all__ = [
    "NETLINK_NETFILTER",
    "NETLINK_ROUTE",
    "NLM_F_ACK",
    "NLM_F_APPEND",
    "NLM_F_CREATE",
    "NLM_F_DUMP",
    "NLM_F_EXCL",
    "NLM_F_REPLACE",
    "NetlinkError",
    "Request",
    "attr",
    "attrs",
    "be32",
    "be64",
    "nest",
    "text",
    "transact",
]

NETLINK_ROUTE = 0
NETLINK_NETFILTER = 12
NLM_F_REQUEST = 0x1
NLM_F_ACK = 0x4
NLM_F_DUMP = 0x300
NLM_F_REPLACE = 0x100
NLM_F_EXCL = 0x200
NLM_F_CREATE = 0x400
NLM_F_APPEND = 0x800
_NLM_F_ACK_TLVS = 0x200
_NLMSG_ERROR = 2
_NLMSG_DONE = 3
_NLA_F_NESTED = 0x8000
_NLA_TYPE_MASK = 0x3FFF
_SOL_NETLINK = 270
_NETLINK_CAP_ACK = 10
_NETLINK_EXT_ACK = 11
_NLMSGERR_ATTR_MSG = 1
_NFNL_MSG_BATCH_BEGIN = 0x10
_NFNL_MSG_BATCH_END = 0x11
_NFNL_SUBSYS_NFTABLES = 10
_RECEIVE = 1 << 18


class Request(NamedTuple):
    """One message to the kernel, without its sequence number.

    Attributes:
        kind: Message type.
        flags: Flags beside NLM_F_REQUEST.
        body: Family header and attributes.
        label: What it does, for error messages ("rule node/self-ephemeral").
    """

    kind: int
    flags: int
    body: bytes
    label: str = ""


class NetlinkError(OSError):
    """The kernel refused a request; `errno` is the kernel's, the text names the request."""


def attr(kind: int, payload: bytes) -> bytes:
    """Return one attribute, padded to four bytes."""
    length = 4 + len(payload)
    return struct.pack("=HH", length, kind) + payload + b"\0" * (-length % 4)


def nest(kind: int, *children: bytes) -> bytes:
    """Return an attribute that holds attributes."""
    return attr(kind | _NLA_F_NESTED, b"".join(children))


def text(kind: int, value: str) -> bytes:
    """Return a zero-terminated string attribute."""
    return attr(kind, value.encode() + b"\0")


def be32(kind: int, value: int) -> bytes:
    """Return a 32-bit big-endian attribute, as nf_tables wants its integers; negative values as two's complement."""
    return attr(kind, struct.pack(">I", value & 0xFFFFFFFF))


def be64(kind: int, value: int) -> bytes:
    """Return a 64-bit big-endian attribute."""
    return attr(kind, struct.pack(">Q", value))


def attrs(data: bytes) -> list[tuple[int, bytes]]:
    """Split attributes; kinds come without the nested and byte-order flags."""
    found = []
    offset = 0
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, offset)
        if length < 4:
            break
        found.append((kind & _NLA_TYPE_MASK, data[offset + 4 : offset + length]))
        offset += length + (-length % 4)
    return found


def _message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, sequence, 0) + body + b"\0" * (-len(body) % 4)


def _messages(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield (kind, flags, sequence, body) of the messages of one datagram."""
    offset = 0
    while offset + 16 <= len(data):
        length, kind, flags, sequence, _ = struct.unpack_from("=IHHII", data, offset)
        if length < 16:
            return
        yield kind, flags, sequence, data[offset + 16 : offset + length]
        offset += length + (-length % 4)


def _raise(number: int, request: Request | None, flags: int, body: bytes) -> None:
    detail = ""
    if flags & _NLM_F_ACK_TLVS:
        for kind, payload in attrs(body[20:]):
            if kind == _NLMSGERR_ATTR_MSG:
                detail = ": " + payload.rstrip(b"\0").decode(errors="replace")
    label = request.label or f"netlink request {request.kind:#x}" if request else "netlink batch"
    raise NetlinkError(number, f"{label}: {os.strerror(number)}{detail}")


def transact(sock: socket.socket, requests: Sequence[Request], *, batch: bool = False) -> list[list[bytes]]:
    """Send requests and wait until the kernel has answered each.

    Args:
        sock: A raw netlink socket; it works on the network namespace in which it was opened.
        requests: Each is acknowledged on its own, so an error names its request.
        batch: One nf_tables transaction: all or nothing.

    Returns:
        For each request, the bodies that the kernel sent for it (dumps; otherwise empty).

    Raises:
        NetlinkError: The first request that the kernel refused.
    """
    for option in (_NETLINK_CAP_ACK, _NETLINK_EXT_ACK):
        sock.setsockopt(_SOL_NETLINK, option, 1)
    replies: list[list[bytes]] = [[] for _ in requests]
    if not batch:
        for number, request in enumerate(requests):
            sock.send(_message(request.kind, request.flags | NLM_F_REQUEST | NLM_F_ACK, number + 1, request.body))
            _collect(sock, requests, replies, {number})
        return replies
    frame = struct.pack(">BBH", 0, 0, _NFNL_SUBSYS_NFTABLES)
    parts = [_message(_NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, 0, frame)]
    parts += [
        _message(request.kind, request.flags | NLM_F_REQUEST | NLM_F_ACK, number + 1, request.body)
        for number, request in enumerate(requests)
    ]
    parts.append(_message(_NFNL_MSG_BATCH_END, NLM_F_REQUEST, 0, frame))
    sock.send(b"".join(parts))
    _collect(sock, requests, replies, set(range(len(requests))))
    return replies


def _collect(sock: socket.socket, requests: Sequence[Request], replies: list[list[bytes]], awaited: set[int]) -> None:
    """Read until every awaited request is acknowledged or done, then raise the first error.

    All answers are read before raising: what stayed unread would be taken for the answer to the next exchange.
    """
    failed: tuple[int, int, int, bytes] | None = None
    while awaited:
        for kind, flags, sequence, body in _messages(sock.recv(_RECEIVE)):
            number = sequence - 1
            if kind in {_NLMSG_ERROR, _NLMSG_DONE}:
                error = -struct.unpack_from("=i", body)[0] if len(body) >= 4 else 0
                if error and sequence == 0:
                    _raise(error, None, flags, body)
                if error and failed is None:
                    failed = (error, number, flags, body)
                awaited.discard(number)
            elif 0 <= number < len(replies):
                replies[number].append(body)
    if failed is not None:
        error, number, flags, body = failed
        _raise(error, requests[number], flags, body)
