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
        place: Where it comes in the order in which the lines of the source were written, 1-based, when line numbers do
            not tell that: records in another order, several lines in one record. None: the line number tells.
        entry: For a log record within a document (the export of a log backend): its number, 1-based, as the document
            has it; line and offset are where its message stands, if that is known. None for everything else.
    """

    text: str
    line: int | None = None
    offset: int | None = None
    rank: int | None = None
    time: float | None = None
    stream: str = ""
    place: int | None = None
    entry: int | None = None


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
        place: As in `TextLine`.
        entry: As in `TextLine`.
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
    place: int | None = None
    entry: int | None = None
    fields: dict[str, str] = {}
    repeats: int = 1

    @property
    def order(self) -> int | None:
        """Where the line comes among those of its source; None when nothing tells."""
        return self.line if self.place is None else self.place


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One cited line in a report. `text` is redacted and safe to print on a terminal or in CI.

    Attributes:
        line: Line in the source; of a log record within a document the line on which its message stands.
        entry: Number of that log record in the document, 1-based; None for everything else.
    """

    source: str
    text: str
    role: Role
    line: int | None = None
    offset: int | None = None
    rank: int | None = None
    time: str | None = None
    entry: int | None = None

    @property
    def where(self) -> str:
        """The place for a person to look at: `job.log:12`, `loki.json entry 42 (line 130)`."""
        if self.entry is None:
            return f"{self.source}:{self.line}" if self.line is not None else self.source
        return f"{self.source} entry {self.entry}" + (f" (line {self.line})" if self.line is not None else "")
