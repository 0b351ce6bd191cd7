"""Findings that need several sources: flight-recorder dumps of many ranks, two snapshots of a security group.

Readers add what they parsed while they read; when all sources are through, the caller asks once for the findings.
Payloads are plain data, so that readers may run in other processes and their collectors be merged.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firstfault.model import TextLine

__all__ = ["JointAnalysis"]

Payloads = list[tuple[str, Any]]
# Kind of payload -> module whose `analyse(payloads)` makes findings of all payloads of that kind. Imported when needed.
ANALYSES = {
    "flight-recorder": "firstfault.scan.readers.flight_recorder",
    "kubernetes-services": "firstfault.scan.readers.kubernetes_network",
    "security-groups": "firstfault.scan.readers.security_groups",
}


class JointAnalysis:
    """Collects payloads of readers by kind and turns them into findings at the end."""

    def __init__(self) -> None:
        self._payloads: dict[str, Payloads] = {}

    def add(self, kind: str, source_name: str, payload: Any) -> None:
        """Keep what one source holds.

        Args:
            kind: A key of `ANALYSES`.
            source_name: Where it came from.
            payload: Plain, picklable data as the analysis of that kind expects it.
        """
        self._payloads.setdefault(kind, []).append((source_name, payload))

    def merge(self, other: JointAnalysis) -> None:
        """Take over what another collector holds (readers that ran in another process)."""
        for kind, payloads in other._payloads.items():
            self._payloads.setdefault(kind, []).extend(payloads)

    def finish(self) -> list[tuple[str, TextLine]]:
        """Return the findings as (source name, line), the same for any order in which the sources were added."""
        findings: list[tuple[str, TextLine]] = []
        for kind in sorted(self._payloads):
            payloads = sorted(self._payloads[kind], key=lambda item: item[0])
            findings.extend(importlib.import_module(ANALYSES[kind]).analyse(payloads))
        return findings
