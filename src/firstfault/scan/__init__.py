"""Turns bytes into observations: finds sources, detects formats, runs the catalogue's patterns over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import msgspec

from firstfault.scan.scanner import ScanProblem, ScanResult, shared_scanner
from firstfault.scan.set_aside import is_of_configuration, sift
from firstfault.scan.sources import Source, SourceProblem, open_sources

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from firstfault.model import SetAside

__all__ = ["ScanProblem", "ScanResult", "Source", "SourceProblem", "open_sources", "scan", "scan_sources"]


def scan(paths: Iterable[str | os.PathLike[str]], *, stdin: BinaryIO | None = None) -> ScanResult:
    """Read files, folders, archives or standard input ("-") once and return what the catalogue recognises.

    Inputs that cannot be read are in `problems`; the others are processed all the same.
    """
    return scan_sources(open_sources(paths, stdin=stdin))


def scan_sources(sources: Iterable[Source | SourceProblem]) -> ScanResult:
    """The same for sources that the caller has opened. Files that no run printed are not taken as output."""
    aside: list[SetAside] = []
    configuration: dict[str, str] = {}
    result = shared_scanner().scan(sift(sources, aside, configuration))
    if configuration:
        result = _as_configuration(result, configuration)
    return msgspec.structs.replace(result, set_aside=[*aside, *result.set_aside])


def _as_configuration(result: ScanResult, kinds: dict[str, str]) -> ScanResult:
    """Keep of configuration files only what they are evidence of."""
    return msgspec.structs.replace(
        result,
        observations=[item for item in result.observations if item.source not in kinds or is_of_configuration(item)],
        sources=[
            msgspec.structs.replace(info, kind=kinds[info.name]) if info.name in kinds else info
            for info in result.sources
        ],
    )
