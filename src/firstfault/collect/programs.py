"""Runs kubectl and aws in threads, and ends those that still run when whoever waits for them is told to end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from typing import Self

from firstfault.errors import UnsupportedError

__all__ = ["Programs"]

COMMAND_TIMEOUT_S = 60


class Programs:
    """The programs that run now. A context manager: none of them outlives its block."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._ended = True
            for child in list(self._running):
                _kill(child)

    def run(self, argv: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
        """Run one program to its end; one that takes longer than 60 s is ended, with exit code 124 as by timeout(1).

        Raises:
            UnsupportedError: There is no such program.
        """
        try:
            with self._lock:
                if self._ended:
                    return subprocess.CompletedProcess(argv, 124, b"", b"not started")
                # In a group of its own, with the credential plugin that it may start; so no terminal can ask anybody.
                child = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
                )
                self._running.add(child)
        except FileNotFoundError as error:
            raise UnsupportedError(
                f"the program {argv[0]!r} is not on the PATH", "install it, or run the printed script where it is"
            ) from error
        with child:
            try:
                output, errors = child.communicate(timeout=COMMAND_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                _kill(child)
                return subprocess.CompletedProcess(argv, 124, b"", f"no answer within {COMMAND_TIMEOUT_S} s".encode())
            except BaseException:
                _kill(child)  # before the end of `with` waits for it
                raise
            finally:
                self._running.discard(child)
        return subprocess.CompletedProcess(argv, child.returncode, output, errors)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """End a program and what it started."""
    if child.returncode is None:  # else its number may be somebody else's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
