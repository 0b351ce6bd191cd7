"""The frozen structs that every layer speaks: observations, reports, cards. No logic beyond their own invariants.

They are msgspec structs: encoding to JSON is one call, decoding is typed and fast. The JSON contract is versioned by
the `schema` field of each report.
"""

from __future__ import annotations

from firstfault.model.evidence import Evidence, Layer, Observation, Role, TextLine
from firstfault.model.triage import (
    Ladder,
    LadderGroup,
    Missing,
    RuledOut,
    Serving,
    SetAside,
    SourceInfo,
    Transport,
    TransportOption,
    TriageReport,
    Verdict,
)

__all__ = [
    "Evidence",
    "Ladder",
    "LadderGroup",
    "Layer",
    "Missing",
    "Observation",
    "Role",
    "RuledOut",
    "Serving",
    "SetAside",
    "SourceInfo",
    "TextLine",
    "Transport",
    "TransportOption",
    "TriageReport",
    "Verdict",
]
