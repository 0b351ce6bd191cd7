"""A name server for the nodes of a local world, that can be told to answer wrongly, late or not at all (RFC 1035)."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DNS_PORT", "Misanswer", "NameServer"]

DNS_PORT = 53
_A = 1
_ANSWER, _NO_SUCH_NAME = 0x8180, 0x8183
_TTL_S = 1


class Misanswer(msgspec.Struct, frozen=True, kw_only=True):
    """How a name is answered while a fault acts.

    Attributes:
        address: IPv4 address to give; "": that there is no such name.
        delay_s: Seconds to wait before the true answer; None: answer at once.
    """

    address: str = ""
    delay_s: float | None = None


class NameServer:
    """Answers questions for A records from a thread, until it is closed.

    Args:
        sock: A bound UDP socket, living in the node's network.
        names: Name to IPv4 address.
    """

    def __init__(self, sock: socket.socket, names: Mapping[str, str]) -> None:
        self._socket = sock
        self._names = dict(names)
        self._wrong: dict[str, Misanswer] = {}
        self._thread = threading.Thread(target=self._serve, name="nameserver", daemon=True)
        self._closed = threading.Event()
        sock.settimeout(0.2)
        self._thread.start()

    def set(self, name: str, answer: Misanswer | None) -> None:
        """Answer a name differently from now on; None: rightly again."""
        if answer is None:
            self._wrong.pop(name, None)
        else:
            self._wrong[name] = answer

    def close(self) -> None:
        """Stop answering."""
        self._closed.set()
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                question, peer = self._socket.recvfrom(512)
            except TimeoutError:
                continue
            except OSError:
                return
            wrong = self._wrong.get(_name_in(question))
            if wrong and wrong.delay_s:
                threading.Thread(target=self._later, args=(wrong.delay_s, question, peer), daemon=True).start()
                continue
            with contextlib.suppress(OSError, struct.error):
                self._socket.sendto(self._reply(question, wrong), peer)

    def _later(self, seconds: float, question: bytes, peer: tuple[str, int]) -> None:
        time.sleep(seconds)
        with contextlib.suppress(OSError, struct.error):
            self._socket.sendto(self._reply(question, None), peer)

    def _reply(self, question: bytes, wrong: Misanswer | None) -> bytes:
        address = wrong.address if wrong else self._names.get(_name_in(question), "")
        end = _question_end(question)
        kind = struct.unpack(">H", question[end - 4 : end - 2])[0]
        answers = int(bool(address) and kind == _A)
        flags = _ANSWER if address else _NO_SUCH_NAME
        reply = question[:2] + struct.pack(">HHHHH", flags, 1, answers, 0, 0) + question[12:end]
        if answers:
            # 0xc00c: the name stands at offset 12, in the question.
            reply += struct.pack(">HHHIH", 0xC00C, _A, 1, _TTL_S, 4) + socket.inet_aton(address)
        return reply


def _question_end(message: bytes) -> int:
    place = 12
    while place < len(message) and message[place]:
        place += message[place] + 1
    return place + 5


def _name_in(message: bytes) -> str:
    """Return the name that a question asks for, in lower case."""
    labels, place = [], 12
    while place < len(message) and message[place]:
        labels.append(message[place + 1 : place + 1 + message[place]].decode("ascii", "replace").lower())
        place += message[place] + 1
    return ".".join(labels)
