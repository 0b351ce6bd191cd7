"""Live progress of a drill on standard error: one moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any, Self, TextIO

if TYPE_CHECKING:
    from types import TracebackType

    from firstfault.model.drill import Phase

__all__ = ["Progress"]

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_REDRAW_S = 0.1


class Progress:
    """Tells a person which phase runs, what is awaited and for how long. A context manager.

    Args:
        stream: Where to write; a terminal gets one line that moves, anything else a line per event.

    Attributes:
        injected: Whether a fault was made, or nearly.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._phase = ""
        self._awaited = ""
        self._since = time.monotonic()
        self._began = self._since
        self._drawn = 0.0
        self._ended = 0
        self._ranks = 0
        self._until = ""
        self.injected = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._clear()

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self._clear()
        self._stream.write(text + "\n")
        self._stream.flush()

    def event(self, name: str, fields: dict[str, Any]) -> None:
        """Follow the drill's events."""
        handler = getattr(self, "_on_" + name.replace("-", "_"), None)
        if handler is not None:
            handler(fields)

    def tick(self) -> None:
        """Redraw the moving line."""
        now = time.monotonic()
        if not self._live or now - self._drawn < _REDRAW_S or not self._awaited:
            return
        self._drawn = now
        frame = _FRAMES[int(now / _REDRAW_S) % len(_FRAMES)]
        line = f"{frame} {self._phase:<9} {self._awaited}  {now - self._since:.1f} s"
        columns = shutil.get_terminal_size((80, 24)).columns
        self._stream.write("\r\x1b[K" + line[: columns - 1])
        self._stream.flush()

    def _clear(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _await(self, text: str) -> None:
        self._awaited = text
        if self._live:
            self._drawn = 0.0
            self.tick()
        else:
            self._note(text)

    def _note(self, text: str) -> None:
        """Write a line that stays, with the time since the beginning."""
        self.say(f"{time.monotonic() - self._began:6.1f} s  {self._phase:<9} {text}")

    # -- events, by name -------------------------------------------------------------------------------------------

    def _on_world_opening(self, _: dict[str, Any]) -> None:
        self._phase, self._since = "world", time.monotonic()
        self._await("making nodes, switch and firewalls")

    def _on_phase_started(self, fields: dict[str, Any]) -> None:
        self._phase, self._since = str(fields["phase"]), time.monotonic()
        self._await("probing paths")

    def _on_job_started(self, fields: dict[str, Any]) -> None:
        self._ranks, self._ended = int(fields["ranks"]), 0
        self._until = f"they give up after about {float(fields['timeout']):g} s"
        if fields.get("own_program"):
            # Whether the program heeds FIRSTFAULT_TIMEOUT is its own affair; the deadline is the drill's.
            self._until = f"they give up by their own timeout, or are ended after {float(fields['deadline']):g} s"
        self._await(self._waiting())

    def _waiting(self) -> str:
        how = self._until if self._phase == "injected" else "a few seconds"
        return f"waiting for {self._ranks - self._ended} of {self._ranks} ranks to end ({how})"

    def _on_rank_ended(self, fields: dict[str, Any]) -> None:
        self._ended += 1
        code = fields["exit_code"]
        if not self._live:
            self._note(f"rank {fields['rank']} ended with {code}")
        self._awaited = self._waiting() if self._ended < self._ranks else "reading the rules back"

    def _on_deadline_passed(self, fields: dict[str, Any]) -> None:
        if self._phase != "injected" and fields.get("failed"):
            why = f"stopped, since rank {', '.join(map(str, fields['failed']))} failed without a fault"
        else:
            why = "hang: ended at the deadline"
        if self._live:  # in the columns of a phase's result, which follows
            self.say(f"  {self._phase:<9} {time.monotonic() - self._since:5.1f} s  ranks {fields['ranks']} {why}")
        else:
            self._note(f"ranks {fields['ranks']} {why}")

    def _on_phase_ended(self, fields: dict[str, Any]) -> None:
        phase: Phase = fields["phase"]
        self._awaited = ""
        if self._live:
            good = all(rank.exit_code == 0 for rank in phase.ranks)
            opened = sum(probe.reachable for probe in phase.probes)
            codes = " ".join("hung" if rank.exit_code is None else str(rank.exit_code) for rank in phase.ranks)
            paths = f"{opened} of {len(phase.probes)} paths open"
            self.say(f"{'✔' if good else '✘'} {phase.name:<9} {phase.seconds:5.1f} s  exit {codes} · {paths}")

    def _on_injecting(self, fields: dict[str, Any]) -> None:
        self.injected = True
        self._phase, self._since = "injected", time.monotonic()
        self._await(f"making the fault ({fields['kind']}); its undo record is on disk")

    def _on_undoing(self, _: dict[str, Any]) -> None:
        self._phase, self._since = "restored", time.monotonic()
        self._await("taking the fault back")

    def _on_triage_started(self, fields: dict[str, Any]) -> None:
        if fields["phase"] == "baseline":
            self._phase, self._since = "triage", time.monotonic()
            self._await("reading the logs of each phase")
