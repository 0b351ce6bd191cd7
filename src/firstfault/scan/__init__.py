"""Turns bytes into observations: finds sources, detects formats, runs the catalogue's patterns over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from firstfault.scan.scanner import ScanProblem, ScanResult, shared_scanner
from firstfault.scan.sources import Source, SourceProblem, open_sources

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

__all__ = ["ScanProblem", "ScanResult", "Source", "SourceProblem", "open_sources", "scan", "scan_sources"]


def scan(paths: Iterable[str | os.PathLike[str]], *, stdin: BinaryIO | None = None) -> ScanResult:
    """Read files, folders, archives or standard input ("-") once and return what the catalogue recognises.

    Inputs that cannot be read are in `problems`; the others are processed all the same.
    """
    return scan_sources(open_sources(paths, stdin=stdin))


def scan_sources(sources: Iterable[Source | SourceProblem]) -> ScanResult:
    """The same for sources that the caller has opened."""
    return shared_scanner().scan(sources)
