"""Reads bytes as triage would: detect the reader, collect lines and joint findings."""

from __future__ import annotations

import io

from firstfault.model import TextLine
from firstfault.scan.readers import JointAnalysis, detect_reader


def read(data: bytes | str, name: str = "source") -> tuple[str | None, list[TextLine]]:
    """Return the kind and the lines of one source; the kind is None for plain text."""
    data = data.encode() if isinstance(data, str) else data
    reader = detect_reader(data[: 64 * 1024])
    return (None, []) if reader is None else (reader.kind, list(reader.read(io.BytesIO(data), name)))


def texts(data: bytes | str, name: str = "source") -> list[str]:
    """Return the texts of the lines of one source."""
    return [line.text for line in read(data, name)[1]]


def joint(sources: dict[str, bytes | str]) -> list[tuple[str, str]]:
    """Return what only all sources together tell, as (source, text)."""
    analysis = JointAnalysis()
    for name, content in sources.items():
        data = content.encode() if isinstance(content, str) else content
        reader = detect_reader(data[: 64 * 1024])
        assert reader is not None, name
        for _ in reader.read(io.BytesIO(data), name, joint=analysis):
            pass
    return [(name, line.text) for name, line in analysis.finish()]
