"""The shape of a signal: a line that says where a job stands, or a fact about it, without naming a fault.

Cards say what faults look like; signals say what everything else looks like that diagnosis needs: that a rank reached
a rung of the ladder, how large the world is, whether NCCL spoke, that a step was done. They are data as well: the YAML
files under `signals/`, matched by the same engine in the same pass.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.catalogue.card import Sample

__all__ = ["Causality", "Rung", "Signal", "SignalFile"]


class Rung(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rung of a ladder.

    Attributes:
        id: Short name, as cards and signals give it in `rung`.
        ladder: job, pod or serving: the ladder that it belongs to. They are climbed in the order pod, job, serving.
        title: What a rank has done that stands on it, as a past participle phrase.
        backend: Only jobs of this backend climb it ("nccl", "gloo"); "" for all.
        optional: Only shown where a line of the input mentions it (the launcher's own rendezvous).
        stops: Globs of causes that stop a rank here where their line does not say on which rung.
    """

    id: str
    ladder: Literal["job", "pod", "serving"]
    title: str
    backend: str = ""
    optional: bool = False
    stops: list[str] = []


class Signal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pattern over one line that carries a fact.

    Attributes:
        id: Unique over all signals, `subject.detail`. Code of diagnosis refers to it.
        pattern: Regular expression in the dialect of card signatures. Named groups are the fact's values.
        ignore_case: Match without regard to case.
        unless: `re` pattern that, found in the same line, vetoes the match.
        rung: The rung that the line is about; "" when it is about none.
        state: reached: whoever printed it stands on the rung · trying: it is working at the rung.
        health: 0 to 1. How strongly the line speaks for a job that works.
        first_only: One line per few megabytes is enough, so that frequent lines cost nothing.
        samples: Lines that must match; one for each version whose text differs.
        negatives: Similar lines that must not match.
    """

    id: str
    pattern: str
    samples: list[Sample]
    ignore_case: bool = False
    unless: str = ""
    rung: str = ""
    state: Literal["reached", "trying"] = "reached"
    health: float = 0.0
    first_only: bool = False
    negatives: list[str] = []


class Causality(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule of first cause that holds for whole families of faults (a card's `explains` holds for that card).

    Attributes:
        by: Globs of cause ids that come first.
        explains: Globs of cause ids that are then consequences.
        because: The reason, as one sentence for the report.
        enough: How well the first must be seen, as a share of how well the second is.
    """

    by: list[str]
    explains: list[str]
    because: str
    enough: float = 0.55


class SignalFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one YAML file under `signals/` holds."""

    rungs: list[Rung] = []
    signals: list[Signal] = []
    causality: list[Causality] = []
