"""Netlink framing: what is sent and what is read, byte by byte, without a kernel."""

from __future__ import annotations

import struct

import pytest

from firstfault.act import netlink, nftables


def test_attribute_is_padded_to_four_bytes():
    """The length counts the header and the payload, the padding does not count."""
    assert netlink.attr(3, b"eth0\0") == struct.pack("=HH", 9, 3) + b"eth0\0\0\0\0"


def test_attributes_come_back_without_their_flags():
    """A nested attribute is read by its plain number."""
    data = netlink.nest(4, netlink.be32(1, 7)) + netlink.text(2, "x")
    (first, payload), (second, name) = netlink.attrs(data)
    assert (first, second, name) == (4, 2, b"x\0")
    assert netlink.attrs(payload) == [(1, b"\0\0\0\7")]


def test_cut_off_attributes_end_the_reading():
    """A length that cannot be does not loop or read beyond the data."""
    assert netlink.attrs(struct.pack("=HH", 2, 1) + b"\0" * 8) == []


class FakeSocket:
    """Answers with prepared datagrams."""

    def __init__(self, *datagrams):
        self.datagrams = list(datagrams)
        self.sent = []

    def setsockopt(self, *_):
        pass

    def send(self, data):
        self.sent.append(data)

    def recv(self, _):
        return self.datagrams.pop(0)


def _ack(sequence, error=0, *, detail=""):
    body = struct.pack("=i", -error) + bytes(16)
    flags = 0
    if detail:
        flags = 0x200
        body += netlink.text(1, detail)
    return struct.pack("=IHHII", 16 + len(body), 2, flags, sequence, 0) + body


def test_error_names_the_request_that_was_refused():
    """The second of two requests fails: its label and the kernel's own words are in the error."""
    requests = [netlink.Request(1, 0, b"", "first"), netlink.Request(1, 0, b"", "second")]
    sock = FakeSocket(_ack(1) + _ack(2, 2, detail="no such set"))
    with pytest.raises(netlink.NetlinkError, match=r"second: .*: no such set") as caught:
        netlink.transact(sock, requests, batch=True)
    assert caught.value.errno == 2


def test_all_answers_are_read_before_an_error_is_raised():
    """What stayed unread would be taken for the answer to the next exchange."""
    requests = [netlink.Request(1, 0, b"", "first"), netlink.Request(1, 0, b"", "second")]
    sock = FakeSocket(_ack(1, 17), _ack(2))
    with pytest.raises(netlink.NetlinkError, match="first"):
        netlink.transact(sock, requests, batch=True)
    assert sock.datagrams == []


def test_a_refused_batch_is_an_error():
    """Without the capability the kernel answers the frame of the batch, not its messages."""
    sock = FakeSocket(_ack(0, 1))
    with pytest.raises(netlink.NetlinkError, match="batch"):
        netlink.transact(sock, [netlink.Request(1, 0, b"", "rule")], batch=True)


def test_rule_reads_back_as_it_was_written():
    """Identity, chain and table come back; the digest depends on what the rule does, not on its counters."""
    parts = [nftables.protocol("tcp"), nftables.port_range(1025, 65535), nftables.counter(), nftables.accept()]
    rule = nftables.read_rule(nftables.rule("t", "c", *parts, comment="node/ingress/x").body)
    other = [nftables.protocol("tcp"), nftables.port_range(1025, 65534), nftables.counter(), nftables.accept()]
    assert (rule.table, rule.chain, rule.comment, rule.packets) == ("t", "c", "node/ingress/x", 0)
    assert rule.digest == nftables.read_rule(nftables.rule("t", "c", *parts, comment="y").body).digest
    assert rule.digest != nftables.read_rule(nftables.rule("t", "c", *other, comment="y").body).digest


def test_counters_are_read_but_not_part_of_the_digest():
    """Two dumps of the same rule differ in their counters only."""
    silent = nftables.rule("t", "c", nftables.counter(), comment="x").body
    busy = silent.replace(netlink.be64(2, 0), netlink.be64(2, 42))
    assert nftables.read_rule(busy).packets == 42
    assert nftables.read_rule(busy).digest == nftables.read_rule(silent).digest
