"""Cases composed from the programs' own messages: the first cause is named, and aftermath is not."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml

from firstfault.diagnosis import diagnose
from firstfault.scan import Source, scan_sources

CASES = [
    case
    for path in sorted((Path(__file__).parent / "composed").glob("*.yaml"))
    for case in yaml.safe_load(path.read_text("utf-8"))
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_first_cause_is_named(case):
    """The verdict is the cause of the case, or there is none for a healthy one."""
    found = []
    for name, text in case["files"].items():
        data = text.encode()
        found.append(Source(name, lambda data=data: io.BytesIO(data), size=len(data), reopenable=True))
    report = diagnose(scan_sources(found))
    if case["cause"] == "none":
        assert report.verdict is None
        assert report.status == "healthy"
    else:
        assert report.verdict is not None
        assert report.verdict.cause == case["cause"]
