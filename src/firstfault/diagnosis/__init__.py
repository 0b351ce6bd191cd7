"""From observations to a verdict: the ladder, first cause and consequences, confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from firstfault.diagnosis.engine import diagnose
from firstfault.diagnosis.ladder import WENT_QUIET
from firstfault.scan import scan

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from firstfault.model import TriageReport

__all__ = ["WENT_QUIET", "diagnose", "triage"]


def triage(paths: Iterable[str | os.PathLike[str]], *, stdin: BinaryIO | None = None) -> TriageReport:
    """Say which layer failed first, and why, from files alone.

    Args:
        paths: Files, folders, archives; "-" is standard input.
        stdin: The binary stream behind "-".

    Returns:
        The report; the same bytes give the same report. Inputs that cannot be read are in `problems`.
    """
    return diagnose(scan(paths, stdin=stdin))
