"""Ports of this machine for programs that a test starts."""

from __future__ import annotations

import random
import socket
from contextlib import suppress


def closed_port() -> int:
    """A port on which nobody listens, below those that the kernel gives to other programs meanwhile."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)  # not the random numbers that a test's seed repeats
        with suppress(OSError), socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", port))
            return port
