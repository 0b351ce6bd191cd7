"""Ctrl-C, SIGTERM and a terminal that goes away while a fault is there: the first stops the drill, none the undo."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from firstfault.model.drill import DrillReport

__all__ = ["Interrupted", "Interrupts"]


class Interrupted(KeyboardInterrupt):
    """The drill was asked to stop.

    Attributes:
        signal: SIGINT, SIGTERM or SIGHUP.
        report: The drill's result, when it was asked after the restoration: it is measured, and saved with the journal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.signal = number
        self.report: DrillReport | None = None


class Interrupts:
    """Turns SIGINT, SIGTERM and SIGHUP into `Interrupted`, once, and never inside `hold`. A context manager.

    SIGHUP is left alone where it is ignored, as under nohup.
    Outside the main thread, where Python lets nobody handle signals, it does nothing.
    """

    def __init__(self) -> None:
        self._held = 0
        self._stubborn = False
        self._pending: int | None = None
        self._raised = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                    continue
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if self._raised:
            return  # we are on the way out, and what is left to do must be done
        if self._held and (self._stubborn or self._pending is None):
            self._pending = number
            return
        self._raised = True
        raise Interrupted(number)

    def ignore(self) -> None:
        """From now on let no signal interrupt: we are on the way out."""
        self._raised = True

    @contextlib.contextmanager
    def hold(self, *, stubborn: bool = True) -> Iterator[None]:
        """Let nothing interrupt this block; a signal that came meanwhile takes effect at its end.

        Args:
            stubborn: Let a second signal not interrupt it either.
        """
        before = self._stubborn
        self._held += 1
        self._stubborn = before or stubborn
        try:
            yield
        finally:
            self._held -= 1
            self._stubborn = before
        if self._pending is not None and not self._held and not self._raised:
            self._raised = True
            raise Interrupted(self._pending)
