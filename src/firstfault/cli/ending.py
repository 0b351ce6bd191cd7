"""Ends a verb in order when it is told to: its private folder is deleted at once, not by the next run."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

__all__ = ["Ended", "ending_in_order", "quitting_at_once"]


class Ended(BaseException):
    """The process was told to end. What is raised cleans up on its way; the exit code is 128 and the signal's number.

    Attributes:
        signal: SIGINT, SIGTERM or SIGHUP.
        done: What was done on the way out, for the person who reads it.
    """

    def __init__(self, number: int, done: str) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal = number
        self.done = done


@contextlib.contextmanager
def ending_in_order(done: str = "what had been gathered was deleted") -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into `Ended`, once: whoever is on the way out is not interrupted again.

    A signal that is ignored stays so (nohup, a shell's background jobs). Outside the main thread, where Python lets
    nobody handle signals, it does nothing.

    Args:
        done: What the block does on its way out.

    Raises:
        Ended: A signal came.
    """
    owner, raised = os.getpid(), False

    def end(number: int, _: FrameType | None) -> None:
        nonlocal raised
        if os.getpid() != owner:
            os._exit(128 + number)  # a forked child: what there is to delete is its parent's
        if not raised:
            raised = True
            raise Ended(number, done)

    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                before[number] = signal.signal(number, end)
    try:
        yield
    finally:
        if not raised:  # else they stay until the process ends, which is soon
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def quitting_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process where there is nothing to clean up, as in imports.

    An exception would be printed, or lost: Python drops what is raised in the callbacks of its import locks.
    """
    usual = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGINT) == signal.default_int_handler
    )
    if usual:
        signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    try:
        yield
    finally:
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)
