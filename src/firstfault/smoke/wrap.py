"""Runs a program after the preflight, hands its output through, and triages it when the program fails."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from firstfault.diagnosis import triage
from firstfault.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    from firstfault.model import TriageReport

__all__ = ["run_wrapped"]

_CHUNK = 64 << 10
_LOG_LIMIT = 256 << 20
"""Bytes of the beginning and again of the end that are kept for triage."""


def run_wrapped(argv: list[str], log: Path) -> tuple[int, TriageReport | None]:
    """Run a program to its end.

    SIGTERM, SIGINT and SIGHUP are passed on, so that the program may checkpoint before its Pod is ended.

    Args:
        argv: The program and its arguments.
        log: Where its output is kept beside being handed through.

    Returns:
        Its exit code (128 + n after signal n) and, when it failed, triage's report on its output.

    Raises:
        InputError: It cannot be started.
    """
    with _passed_on() as program, _started(argv) as child:
        program.adopt(child)
        assert child.stdout is not None
        with log.open("wb") as kept:
            while chunk := child.stdout.read1(_CHUNK):  # type: ignore[attr-defined]
                with contextlib.suppress(BrokenPipeError):
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()
                if kept.tell() < _LOG_LIMIT:
                    kept.write(chunk)
        code = child.wait()
    if code == 0:
        return 0, None
    return (128 - code if code < 0 else code), triage([log])


def _started(argv: list[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        raise InputError(f"{argv[0]}: cannot be started: {error.strerror}", "give the program after --") from error


class _Program:
    """The program that gets the signals; those that come before it has started are kept for it."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def adopt(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        for number in self._early:
            child.send_signal(number)

    def handle(self, number: int, _: FrameType | None) -> None:
        if self._child is None:
            self._early.append(number)
        else:
            self._child.send_signal(number)  # one that has ended gets none


@contextlib.contextmanager
def _passed_on() -> Iterator[_Program]:
    """Hand signals to a program instead of heeding them; a SIGHUP that is ignored stays so, as under nohup."""
    program = _Program()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, program.handle) for number in numbers}
    try:
        yield program
    finally:
        for number, action in before.items():
            signal.signal(number, action)
