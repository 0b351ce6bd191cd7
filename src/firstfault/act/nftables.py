"""nf_tables without the `nft` program: builders of tables, chains, sets and rules, and a reader of rules with counters.

Pure functions from values to bytes and back; sending them is `netlink.transact(..., batch=True)`.
Layout: include/uapi/linux/netfilter/nf_tables.h. All integers in attributes are big-endian.
"""

from __future__ import annotations

import hashlib
import ipaddress
import struct
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple

from firstfault.act.netlink import (
    NLM_F_APPEND,
    NLM_F_CREATE,
    NLM_F_DUMP,
    Request,
    attr,
    attrs,
    be32,
    be64,
    nest,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "KernelRule",
    "accept",
    "all_rules",
    "at_random",
    "chain",
    "counter",
    "delete_table",
    "drop",
    "established",
    "interface",
    "jump",
    "length_over",
    "member",
    "network",
    "port_range",
    "protocol",
    "read_rule",
    "reject",
    "replace_table",
    "rule",
    "rules_of",
    "set_of_addresses",
]

_SUBSYS = 10 << 8
_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE, _GETRULE, _NEWSET, _NEWSETELEM = 0, 2, 3, 6, 7, 9, 12
_INET = 1
_REG = 1
_NFPROTO_IPV4 = 2
_META_IIFNAME, _META_OIFNAME, _META_NFPROTO, _META_L4PROTO = 6, 7, 15, 16
_CMP_EQ, _CMP_NEQ, _CMP_LT, _CMP_LTE, _CMP_GT, _CMP_GTE = range(6)
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
_DROP, _ACCEPT, _JUMP = 0, 1, -3
_HOOKS = {"input": 1, "forward": 2, "output": 3, "prerouting": 0, "postrouting": 4}
_PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17}
_TYPE_IPV4_ADDR = 7  # nft's own number for the key type, so that `nft list` shows addresses
_IFNAMSIZ = 16


def _head() -> bytes:
    return struct.pack(">BBH", _INET, 0, 0)


def _expression(name: str, *data: bytes) -> bytes:
    return nest(1, text(1, name), nest(2, *data))


def _compare(operation: int, value: bytes) -> bytes:
    return _expression("cmp", be32(1, _REG), be32(2, operation), nest(3, attr(1, value)))


def _load(key: int) -> bytes:
    return _expression("meta", be32(1, _REG), be32(2, key))


def _payload(base: int, offset: int, length: int) -> bytes:
    return _expression("payload", be32(1, _REG), be32(2, base), be32(3, offset), be32(4, length))


def _mask(mask: bytes) -> bytes:
    length = len(mask)
    return _expression(
        "bitwise",
        be32(1, _REG),
        be32(2, _REG),
        be32(3, length),
        nest(4, attr(1, mask)),
        nest(5, attr(1, bytes(length))),
    )


def _verdict(code: int, chain_name: str = "") -> bytes:
    verdict = [be32(1, code), *([text(2, chain_name)] if chain_name else [])]
    return _expression("immediate", be32(1, 0), nest(2, nest(2, *verdict)))


def established() -> bytes:
    """Match packets of connections that were allowed before, and what belongs to them (conntrack)."""
    # The conntrack state is a host-order word: 2 established, 4 related.
    state = (2 | 4).to_bytes(4, sys.byteorder)
    return _expression("ct", be32(1, _REG), be32(2, 0)) + _mask(state) + _compare(_CMP_NEQ, bytes(4))


def interface(name: str, direction: Literal["in", "out"]) -> bytes:
    """Match the interface by which a packet comes or goes."""
    key = _META_IIFNAME if direction == "in" else _META_OIFNAME
    return _load(key) + _compare(_CMP_EQ, name.encode().ljust(_IFNAMSIZ, b"\0"))


def _address(side: Literal["source", "destination"]) -> bytes:
    ipv4 = _load(_META_NFPROTO) + _compare(_CMP_EQ, bytes([_NFPROTO_IPV4]))
    return ipv4 + _payload(_NETWORK_HEADER, 12 if side == "source" else 16, 4)


def network(cidr: str, side: Literal["source", "destination"]) -> bytes:
    """Match an IPv4 network; 0.0.0.0/0 matches every IPv4 packet."""
    parsed = ipaddress.IPv4Network(cidr)
    if parsed.prefixlen == 0:
        return _load(_META_NFPROTO) + _compare(_CMP_EQ, bytes([_NFPROTO_IPV4]))
    mask = b"" if parsed.prefixlen == 32 else _mask(parsed.netmask.packed)
    return _address(side) + mask + _compare(_CMP_EQ, parsed.network_address.packed)


def member(set_name: str, side: Literal["source", "destination"]) -> bytes:
    """Match an address that is in a named set."""
    return _address(side) + _expression("lookup", text(1, set_name), be32(2, _REG))


def protocol(name: Literal["icmp", "tcp", "udp"]) -> bytes:
    """Match the layer-4 protocol."""
    return _load(_META_L4PROTO) + _compare(_CMP_EQ, bytes([_PROTOCOLS[name]]))


def port_range(first: int, last: int) -> bytes:
    """Match the destination port, both ends included. Needs `protocol` before it."""
    load = _payload(_TRANSPORT_HEADER, 2, 2)
    low, high = struct.pack(">H", first), struct.pack(">H", last)
    if first == last:
        return load + _compare(_CMP_EQ, low)
    return load + _compare(_CMP_GTE, low) + _compare(_CMP_LTE, high)


def length_over(size: int) -> bytes:
    """Match IPv4 packets whose total length is larger than so many bytes (of a segment before it is split)."""
    ipv4 = _load(_META_NFPROTO) + _compare(_CMP_EQ, bytes([_NFPROTO_IPV4]))
    return ipv4 + _payload(_NETWORK_HEADER, 2, 2) + _compare(_CMP_GT, struct.pack(">H", size))


def at_random(percent: float) -> bytes:
    """Match so many of a hundred packets, at random."""
    modulus = 100_000
    random = _expression("numgen", be32(1, _REG), be32(2, modulus), be32(3, 1), be32(4, 0))
    # The number is in host order, and comparisons are bytewise.
    big_endian = _expression("byteorder", be32(1, _REG), be32(2, _REG), be32(3, 1), be32(4, 4), be32(5, 4))
    return random + big_endian + _compare(_CMP_LT, struct.pack(">I", round(percent * modulus / 100)))


def counter() -> bytes:
    """Count packets and bytes that come this far in the rule."""
    return _expression("counter", be64(1, 0), be64(2, 0))


def accept() -> bytes:
    """Let the packet pass."""
    return _verdict(_ACCEPT)


def drop() -> bytes:
    """Let the packet vanish without an answer."""
    return _verdict(_DROP)


def jump(chain_name: str) -> bytes:
    """Go on in another chain of the table, and come back if that decides nothing."""
    return _verdict(_JUMP, chain_name)


def reject(how: Literal["tcp-reset", "prohibited"]) -> bytes:
    """Refuse with an answer: a TCP reset, or ICMP "administratively prohibited"."""
    if how == "tcp-reset":
        return _expression("reject", be32(1, 1), attr(2, b"\0"))
    return _expression("reject", be32(1, 2), attr(2, b"\3"))


def chain(
    table: str,
    name: str,
    *,
    hook: Literal["input", "output", "forward", "prerouting", "postrouting"] | None = None,
    priority: int = 0,
    policy: Literal["accept", "drop"] = "accept",
) -> Request:
    """Create a chain: at a hook of the packet path, or (without one) only to jump to."""
    body = _head() + text(1, table) + text(3, name)
    if hook:
        body += nest(4, be32(1, _HOOKS[hook]), be32(2, priority))
        body += be32(5, _DROP if policy == "drop" else _ACCEPT) + text(7, "filter")
    return Request(_SUBSYS | _NEWCHAIN, NLM_F_CREATE, body, f"add chain {table} {name}")


def rule(table: str, chain_name: str, *expressions: bytes, comment: str) -> Request:
    """Append a rule.

    Args:
        table: Name of the inet table.
        chain_name: Chain to which it is appended.
        expressions: Matches and statements, in order.
        comment: Identity of the rule; `nft list` shows it and `read_rule` returns it. At most 250 bytes.
    """
    note = comment.encode() + b"\0"
    body = _head() + text(1, table) + text(2, chain_name) + nest(4, *expressions)
    body += attr(7, bytes([0, len(note)]) + note)
    return Request(_SUBSYS | _NEWRULE, NLM_F_CREATE | NLM_F_APPEND, body, f"add rule {comment}")


def set_of_addresses(table: str, name: str, addresses: Iterable[str], *, number: int) -> list[Request]:
    """Create a named set of IPv4 addresses with its members.

    Args:
        table: Name of the inet table.
        name: Name by which `member` refers to it.
        addresses: The members; may be none.
        number: A number that is unique among the sets of one transaction.
    """
    body = _head() + text(1, table) + text(2, name) + be32(3, 0)
    body += be32(4, _TYPE_IPV4_ADDR) + be32(5, 4) + be32(10, number)
    requests = [Request(_SUBSYS | _NEWSET, NLM_F_CREATE, body, f"add set {name}")]
    elements = [nest(1, nest(1, attr(1, ipaddress.IPv4Address(address).packed))) for address in addresses]
    if elements:
        body = _head() + text(1, table) + text(2, name) + be32(4, number) + nest(3, *elements)
        requests.append(Request(_SUBSYS | _NEWSETELEM, NLM_F_CREATE, body, f"fill set {name}"))
    return requests


def replace_table(name: str, content: Iterable[Request]) -> list[Request]:
    """Return one transaction that puts a table in place, whether or not it was there before.

    Create, delete, create: the delete never fails, and a packet meets either the old table or the new one.
    """
    create = Request(_SUBSYS | _NEWTABLE, NLM_F_CREATE, _head() + text(1, name) + be32(2, 0), f"add table {name}")
    remove = Request(_SUBSYS | _DELTABLE, 0, _head() + text(1, name), f"delete table {name}")
    return [create, remove, create, *content]


def delete_table(name: str) -> list[Request]:
    """Return one transaction after which a table is gone, whether or not it was there before."""
    return replace_table(name, [])[:2]


def all_rules() -> Request:
    """Ask for every rule of every inet table."""
    return Request(_SUBSYS | _GETRULE, NLM_F_DUMP, _head(), "list all rules")


def rules_of(table: str) -> Request:
    """Ask for the rules of a table, with counters."""
    return Request(_SUBSYS | _GETRULE, NLM_F_DUMP, _head() + text(1, table), f"list rules of {table}")


class KernelRule(NamedTuple):
    """One rule as the kernel has it.

    Attributes:
        table: Its table.
        chain: Its chain.
        comment: The identity that `rule` gave it; "" for foreign rules.
        packets: Counted packets; 0 without a counter.
        bytes: Counted bytes.
        digest: SHA-256 over what the rule does, counter values left out: equal digests mean equal rules.
    """

    table: str
    chain: str
    comment: str
    packets: int
    bytes: int
    digest: str


def read_rule(body: bytes) -> KernelRule:
    """Read one rule of the reply to `rules_of`."""
    found = dict(attrs(body[4:]))
    packets = count = 0
    digest = hashlib.sha256()
    for _, element in attrs(found.get(4, b"")):
        parts = dict(attrs(element))
        name = parts[1].rstrip(b"\0").decode()
        data = parts.get(2, b"")
        digest.update(name.encode())
        if name == "counter":
            values = dict(attrs(data))
            count, packets = (int.from_bytes(values.get(kind, b""), "big") for kind in (1, 2))
        else:
            digest.update(data)
    note = found.get(7, b"")
    comment = note[2 : 2 + note[1]].rstrip(b"\0").decode(errors="replace") if len(note) > 2 and note[0] == 0 else ""
    return KernelRule(
        found[1].rstrip(b"\0").decode(), found[2].rstrip(b"\0").decode(), comment, packets, count, digest.hexdigest()
    )
