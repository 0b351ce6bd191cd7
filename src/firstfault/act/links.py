"""Requests to rtnetlink: bridge, veth pairs, addresses, up and down. Pure builders of bytes.

Layout: include/uapi/linux/if_link.h, if_addr.h, rtnetlink.h.
"""

from __future__ import annotations

import ipaddress
import socket
import struct

from firstfault.act.netlink import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Request, attr, attrs, nest, text

__all__ = [
    "add_address",
    "add_bridge",
    "add_neighbour",
    "add_veth",
    "delete_qdisc",
    "get_link",
    "is_up",
    "limit_rate",
    "set_link",
    "set_master",
    "set_mtu",
]

_RTM_NEWLINK = 16
_RTM_GETLINK = 18
_RTM_NEWADDR = 20
_RTM_NEWNEIGH = 28
_RTM_NEWQDISC = 36
_RTM_DELQDISC = 37
_TC_ROOT = 0xFFFFFFFF
_TCA_KIND, _TCA_OPTIONS = 1, 2
_TBF_PARMS, _TBF_BURST = 1, 6
_ETHERNET = 1
_IFF_UP = 1
_OPER_UP = 6
_IFLA_ADDRESS = 1
_IFLA_IFNAME = 3
_IFLA_MTU = 4
_IFLA_MASTER = 10
_IFLA_OPERSTATE = 16
_IFLA_LINKINFO = 18
_IFLA_NET_NS_FD = 28
_IFLA_INFO_KIND = 1
_IFLA_INFO_DATA = 2
_VETH_INFO_PEER = 1
_IFA_ADDRESS = 1
_IFA_LOCAL = 2
_NDA_DST = 1
_NDA_LLADDR = 2
_NUD_PERMANENT = 0x80


def _link(*, index: int = 0, flags: int = 0, change: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def add_bridge(name: str) -> Request:
    """Create a bridge, up at once."""
    body = _link(flags=_IFF_UP, change=_IFF_UP) + text(_IFLA_IFNAME, name)
    body += nest(_IFLA_LINKINFO, text(_IFLA_INFO_KIND, "bridge"))
    return Request(_RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"add bridge {name}")


def add_veth(name: str, peer: str, *, peer_address: str, peer_netns_fd: int, bridge_index: int) -> Request:
    """Create a cable: `name` here, up and on the bridge, `peer` in another network namespace.

    Args:
        name: Name of the end in this network namespace.
        peer: Name of the other end.
        peer_address: IPv4 address that the other end will have; its hardware address is derived from it.
        peer_netns_fd: The other network namespace, as a descriptor of the process that sends the request.
        bridge_index: Interface index of the bridge that `name` joins.
    """
    other = _link() + text(_IFLA_IFNAME, peer) + attr(_IFLA_ADDRESS, _hardware_address(peer_address))
    other += attr(_IFLA_NET_NS_FD, struct.pack("=I", peer_netns_fd))
    body = _link(flags=_IFF_UP, change=_IFF_UP) + text(_IFLA_IFNAME, name)
    body += attr(_IFLA_MASTER, struct.pack("=I", bridge_index))
    body += nest(
        _IFLA_LINKINFO,
        text(_IFLA_INFO_KIND, "veth"),
        nest(_IFLA_INFO_DATA, attr(_VETH_INFO_PEER, other)),
    )
    return Request(_RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, f"add veth {name}")


def _hardware_address(address: str) -> bytes:
    """Return a locally administered hardware address that belongs to an IPv4 address."""
    return b"\x02\x00" + ipaddress.IPv4Address(address).packed


def add_neighbour(index: int, address: str) -> Request:
    """Tell an interface a neighbour's hardware address for good, so that it never asks for it.

    Between cloud instances there is no address resolution that could fail: a peer that is gone is silence, and one that
    comes back is there at once.

    Args:
        index: Interface index within its network namespace.
        address: The neighbour's IPv4 address.
    """
    body = struct.pack("=BxxxiHBB", socket.AF_INET, index, _NUD_PERMANENT, 0, 0)
    body += attr(_NDA_DST, ipaddress.IPv4Address(address).packed) + attr(_NDA_LLADDR, _hardware_address(address))
    return Request(_RTM_NEWNEIGH, NLM_F_CREATE, body, f"add neighbour {address}")


def set_link(name: str, *, up: bool) -> Request:
    """Bring a link up or down."""
    body = _link(flags=_IFF_UP if up else 0, change=_IFF_UP) + text(_IFLA_IFNAME, name)
    return Request(_RTM_NEWLINK, 0, body, f"set {name} {'up' if up else 'down'}")


def get_link(name: str) -> Request:
    """Ask for a link."""
    return Request(_RTM_GETLINK, 0, _link() + text(_IFLA_IFNAME, name), f"get {name}")


def is_up(body: bytes) -> bool:
    """Whether the reply to `get_link` says that the link carries packets: up on both ends, not only told to be."""
    return dict(attrs(body[16:])).get(_IFLA_OPERSTATE) == bytes([_OPER_UP])


def set_mtu(name: str, mtu: int) -> Request:
    """Set a link's MTU in bytes."""
    body = _link() + text(_IFLA_IFNAME, name) + attr(_IFLA_MTU, struct.pack("=I", mtu))
    return Request(_RTM_NEWLINK, 0, body, f"set {name} mtu {mtu}")


def add_address(index: int, interface: str) -> Request:
    """Give an interface an IPv4 address.

    Args:
        index: Interface index within its network namespace.
        interface: Address with prefix length, such as "192.168.10.11/16".
    """
    parsed = ipaddress.IPv4Interface(interface)
    body = struct.pack("=BBBBI", socket.AF_INET, parsed.network.prefixlen, 0, 0, index)
    body += attr(_IFA_LOCAL, parsed.ip.packed) + attr(_IFA_ADDRESS, parsed.ip.packed)
    return Request(_RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, body, f"add address {interface}")


def set_master(name: str, bridge_index: int) -> Request:
    """Plug a link into a bridge, or with index 0 into none."""
    body = _link() + text(_IFLA_IFNAME, name) + attr(_IFLA_MASTER, struct.pack("=I", bridge_index))
    return Request(_RTM_NEWLINK, 0, body, f"set master of {name}")


def _qdisc(index: int, handle: int = 0) -> bytes:
    return struct.pack("=BxHiIII", socket.AF_UNSPEC, 0, index, handle, _TC_ROOT, 0)


def limit_rate(index: int, bits_per_second: int) -> Request:
    """Let an interface send no faster (token bucket, queue of a tenth of a second).

    Layout: struct tc_tbf_qopt in include/uapi/linux/pkt_sched.h.
    """
    rate = bits_per_second // 8
    burst = max(32 << 10, rate // 250)
    spec = struct.pack("=BBHhHI", 0, _ETHERNET, 0, 0, 0, rate)
    options = spec + bytes(len(spec)) + struct.pack("=III", burst + rate // 10, 0, 0)
    body = _qdisc(index) + text(_TCA_KIND, "tbf")
    body += nest(_TCA_OPTIONS, attr(_TBF_PARMS, options), attr(_TBF_BURST, struct.pack("=I", burst)))
    return Request(_RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body, "limit rate (tbf)")


def delete_qdisc(index: int) -> Request:
    """Take an interface's queueing discipline away; ENOENT or EINVAL where there is none but the default."""
    return Request(_RTM_DELQDISC, 0, _qdisc(index), "delete qdisc")
