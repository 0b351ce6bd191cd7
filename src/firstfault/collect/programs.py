"""Runs kubectl and aws in threads, and ends those that still run when whoever waits for them is told to end."""

from __future__ import annotations

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
                child.kill()

    def run(self, argv: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
        """Run one program to its end; one that takes longer than 60 s is ended, with exit code 124 as by timeout(1).

        Raises:
            UnsupportedError: There is no such program.
        """
        try:
            with self._lock:
                if self._ended:
                    return subprocess.CompletedProcess(argv, 124, b"", b"not started")
                child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self._running.add(child)
        except FileNotFoundError as error:
            raise UnsupportedError(
                f"the program {argv[0]!r} is not on the PATH", "install it, or run the printed script where it is"
            ) from error
        with child:
            try:
                output, errors = child.communicate(timeout=COMMAND_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                child.kill()
                return subprocess.CompletedProcess(argv, 124, b"", f"no answer within {COMMAND_TIMEOUT_S} s".encode())
            except BaseException:
                child.kill()  # before the end of `with` waits for it
                raise
            finally:
                self._running.discard(child)
        return subprocess.CompletedProcess(argv, child.returncode, output, errors)
