"""One module per structured format; each prints the facts it holds as text lines (docs/canonical-lines.md).

`detect_reader` picks by content. None means plain text, which the pattern engine scans as it is; `classify_text` says
what kind of plain text it looks like.
"""

from __future__ import annotations

from functools import cache

from firstfault.scan.readers.base import Reader
from firstfault.scan.readers.joint import JointAnalysis
from firstfault.scan.readers.text_kinds import classify_text

__all__ = ["JointAnalysis", "Reader", "classify_text", "detect_reader"]


@cache
def _readers() -> tuple[Reader, ...]:
    """Return all readers, the most specific first. Imported at the first source: they cost some milliseconds."""
    from firstfault.scan.readers import (  # noqa: PLC0415
        containers,
        documents,
        flight_recorder,
        journal,
        json_lines,
        kubectl_text,
        nccl_ras,
        nvidia_smi,
        terraform,
    )

    return (
        flight_recorder.FlightRecorderReader(),
        journal.JournalExportReader(),
        containers.CriReader(),
        containers.DockerReader(),
        journal.JournalJsonReader(),
        nccl_ras.RasJsonReader(),
        *documents.document_readers(),
        json_lines.JsonLinesReader(),
        terraform.TerraformTextReader(),
        nvidia_smi.NvidiaSmiQueryReader(),
        nccl_ras.RasTextReader(),
        *kubectl_text.kubectl_readers(),
    )


def detect_reader(head: bytes) -> Reader | None:
    """Return the reader for a source that begins with these bytes, or None for plain text.

    Args:
        head: The first bytes of the source; 64 KiB, or the whole source if it is shorter.
    """
    return next((reader for reader in _readers() if reader.detect(head)), None)
