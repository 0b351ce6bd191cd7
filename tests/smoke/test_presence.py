"""Whether a peer is still there: what an end with and without a word looks like, over real sockets."""

from __future__ import annotations

import socket

import pytest

from firstfault.smoke import presence
from firstfault.smoke.presence import PROBED, Presence


@pytest.fixture
def ends(monkeypatch):
    """This rank's connections to ranks 1 and 2, and the other ends of both; losses are told without grace."""
    monkeypatch.setattr(presence, "_GRACE_S", 0)
    pairs = {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        for rank in (1, 2):
            far = socket.create_connection(server.getsockname())
            pairs[rank] = (server.accept()[0], far)
    yield Presence({rank: near for rank, (near, _) in pairs.items()}), {rank: far for rank, (_, far) in pairs.items()}
    for near, far in pairs.values():
        near.close()
        far.close()


def test_all_there(ends):
    """Silence of living peers is no loss, and neither is the word that a peer has probed."""
    here, far = ends
    far[1].sendall(PROBED)
    assert here.lost() is None


def test_end_without_a_word_is_a_loss(ends):
    """The kernel closes the connection of a killed process."""
    here, far = ends
    far[2].close()
    loss = here.lost()
    assert (loss.rank, loss.vanished) == (2, True)
    assert "rank 2 went away" in loss.why


def test_end_with_a_result(ends):
    """A rank that is done is not missed; one that failed says what it found."""
    here, far = ends
    Presence({0: far[1]}).close(ok=True)
    assert here.lost() is None
    far[2].sendall(PROBED)
    Presence({0: far[2]}).close(ok=False, cause="network.dns.unresolved", why="rung name failed")
    loss = here.lost()
    assert (loss.rank, loss.vanished, loss.cause) == (2, False, "network.dns.unresolved")
    assert "rung name failed" in loss.why


@pytest.mark.parametrize("said", [b"[]\n", b"\xff\n", b'{"status": 3}\n', b"{" * 100_000 + b"\n"], ids=range(4))
def test_nonsense_is_survived(ends, said):
    """Whatever else comes over the connection, this rank goes on."""
    here, far = ends
    far[1].sendall(said)
    far[1].close()
    for _ in range(20):
        here.lost()
