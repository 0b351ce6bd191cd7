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

    SIGTERM and SIGINT are passed on, so that the program may checkpoint before its Pod is ended.

    Args:
        argv: The program and its arguments.
        log: Where its output is kept beside being handed through.

    Returns:
        Its exit code (128 + n after signal n) and, when it failed, triage's report on its output.

    Raises:
        InputError: It cannot be started.
    """
    try:
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except OSError as error:
        raise InputError(f"{argv[0]}: cannot be started: {error.strerror}", "give the program after --") from error
    with child, _passed_on(child):
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


@contextlib.contextmanager
def _passed_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    def handler(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(number)

    before = {number: signal.signal(number, handler) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
