"""The shape of an injector: it says what it will do, records how to take it back, does it, takes it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from firstfault.drills.scenario import Workload
    from firstfault.model.drill import Change

__all__ = ["Injector", "Start"]


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """When an injection acts; without any field, before the job starts.

    Attributes:
        after_s: Seconds after the ranks were started.
        log: Regular expression; as soon as a line of a rank's log matches it.
        step: As soon as a rank has printed that iteration (`iter N`).
        rank: Which rank's log counts; None: any.
    """

    after_s: float | None = None
    log: str = ""
    step: int | None = None
    rank: int | None = None

    @property
    def before_job(self) -> bool:
        """Whether it acts before the job starts."""
        return self.after_s is None and not self.log and self.step is None

    def __str__(self) -> str:
        if self.before_job:
            return "before the job starts"
        where = "a rank" if self.rank is None else f"rank {self.rank}"
        if self.after_s is not None:
            return f"{self.after_s:g} s after the ranks were started"
        return f"when {where} prints {self.log!r}" if self.log else f"when {where} has done iteration {self.step}"


class Injector(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"
):
    """One kind of fault, with its parameters.

    `undo` gets the record that `prepare` returned, and nothing else: the record is on disk before `inject` runs, and a
    later process may have to take the fault back without the scenario.
    """

    start: Start = Start()

    def describe(self, world: Any) -> Change:
        """Say exactly what would change, without changing anything."""
        raise NotImplementedError

    def adapt(self, workload: Workload) -> Workload:
        """Return the workload as it is started while the fault acts; for faults that lie in how a job is started."""
        return workload

    def leaves(self) -> list[str]:
        """Say what stays although the fault is taken back, one sentence each; nothing, for almost every kind."""
        return []

    def prepare(self, world: Any) -> dict[str, Any]:
        """Return the undo record: plain data (JSON) with everything that `undo` needs. Changes nothing."""
        raise NotImplementedError

    def inject(self, world: Any) -> None:
        """Make the fault."""
        raise NotImplementedError

    @classmethod
    def undo(cls, world: Any, record: dict[str, Any]) -> None:
        """Take the fault back. Must be harmless when it was never made or is taken back already."""
        raise NotImplementedError
