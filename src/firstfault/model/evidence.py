"""What was seen, before anybody says what it means: text lines, observations and evidence."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

__all__ = ["Evidence", "Layer", "Observation", "Role", "TextLine"]

Layer = Literal["infra", "driver", "network", "workload", "observability"]
"""The layer is where a person must act, not where the message was printed."""


class Role(StrEnum):
    """The part a line plays for a cause."""

    ROOT = "root"
    CONSEQUENCE = "consequence"
    CONTEXT = "context"
    EXONERATING = "exonerating"


class TextLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of text as a reader hands it to the pattern engine.

    Readers of structured evidence (Kubernetes objects, flight-recorder dumps, ...) print facts as such lines, in the
    grammar of docs/canonical-lines.md, so that one catalogue of patterns serves all sources.

    Attributes:
        text: The line without its line ending, decoded, prefixes of log shippers already taken off.
        line: 1-based line number in the source as the user sees it; None where the source has no lines.
        offset: Byte offset of the line in the source (after decompression); None where it has none.
        rank: Global rank that printed it, when the reader knows.
        time: Seconds since the epoch (UTC), when the reader knows.
        stream: What wrote it, to keep programs apart within one source (Pod/container, host:pid, node); "" if unknown.
    """

    text: str
    line: int | None = None
    offset: int | None = None
    rank: int | None = None
    time: float | None = None
    stream: str = ""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One signature of the catalogue seen on one line.

    Attributes:
        signature: `cause/signature-id` as in the catalogue.
        cause: Cause id of the card that the signature belongs to.
        role: The part that the signature says the line plays.
        strength: 0 to 1, from the signature: how often this cause is the first one when this line is there.
        source: Name of the source (`outer.tar.gz!inner.log` for members of archives).
        line: 1-based line number, or None.
        offset: Byte offset of the line in the source, or None.
        text: The line (prefix taken off where known), shortened to 2,000 characters.
        rank: Global rank that printed it, or None.
        time: Seconds since the epoch, or None when the line bears no readable time. A time without a zone is taken as
            UTC; of a clock without a year or a date, only differences mean something.
        clock: Which clock `time` is of; times compare only within one clock. "" is a full date, "yearless" has no
            year (syslog, glog), "uptime" counts seconds since boot (dmesg).
        stream: What wrote it within the source; "" if unknown.
        fields: Named groups that the pattern captured.
        repeats: How many equal observations (same signature, source, rank) this one stands for, itself included.
    """

    signature: str
    cause: str
    role: Role
    strength: float
    source: str
    text: str
    line: int | None = None
    offset: int | None = None
    rank: int | None = None
    time: float | None = None
    clock: str = ""
    stream: str = ""
    fields: dict[str, str] = {}
    repeats: int = 1


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One cited line in a report. `text` is redacted and safe to print on a terminal or in CI."""

    source: str
    text: str
    role: Role
    line: int | None = None
    offset: int | None = None
    rank: int | None = None
    time: str | None = None
