"""Logs with JSON records in them: one per line, pretty-printed over several lines, or between lines of plain text.

Structured logs of controllers (Karpenter, zap, klog, structlog) and line-wise exports (logcli, Fluent Bit, Vector,
CloudWatch, jq -c). Lines that are no record are handed on as they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from firstfault.model import TextLine
from firstfault.scan.limits import MIB
from firstfault.scan.readers.base import HEAD_IS_ALL, RawLine, in_order, iter_lines, plain_line
from firstfault.scan.readers.chronology import oldest_first
from firstfault.scan.readers.records import MAX_DEPTH, Record, record_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.scan.readers.joint import JointAnalysis

__all__ = ["JsonLinesReader"]

# What `kubectl logs --prefix --timestamps` and compose put before a record.
_PREFIX = re.compile(
    rb"(?:\[pod/(?P<pod>[^\]\s]{1,300})\] )?(?:[\w./-]{1,100} +\| )?"
    rb"(?:\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d) )?(?=\{|\[\{)"
)
MAX_PRETTY_LINES = 5000
MAX_PRETTY_BYTES = 4 * MIB
# What may be missing behind a record that was cut: in a value, in a string, in an object or list within.
_CLOSINGS = (b"}", b'"}', b"}}", b'"}}', b"]}", b'"]}')
LONGEST_CUT = 65536
# In a source that goes on beyond its head, this share of the lines must be records: decoding costs time.
MIN_SHARE = 0.3


class JsonLinesReader:
    """Prints the message of each record, its fields behind it."""

    kind = "json-log"

    def detect(self, head: bytes) -> bool:
        """Say whether there are records in the head: some, if the head is all there is; many, if not."""
        if b'"' not in head:
            return False
        lines = [line for line in head.split(b"\n") if line.strip()]
        if len(head) >= HEAD_IS_ALL:
            lines = lines[:-1] or lines
        count = sum(_decode(line) is not None for line in lines[:200])
        if len(head) >= HEAD_IS_ALL:
            return count >= MIN_SHARE * min(len(lines), 200) and count > 0
        return count > 0 or (any(line.strip() == b"{" for line in lines) and _has_pretty_record(head))

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Return the messages."""
        del source_name, joint
        return in_order(_lines(iter_lines(stream)))


def _decode(data: bytes) -> tuple[list[Record], str] | None:
    """Return the records of a line and the stream that its prefix names."""
    match = _PREFIX.match(data)
    if match is None:
        return None
    value = _json(data[match.end() :]) or _cut_json(data[match.end() :])
    records = _records(value)
    return (records, (match["pod"] or b"").decode("utf-8", "replace")) if records else None


def _records(value: Any) -> list[Record]:
    """Return the record that an object is, or those in a list, as viewers of logs give them, in order of time.

    What holds no message but text of several lines (`{"logs": …}`, `{"stdout": …, "stderr": …}`) is read as that text.
    """
    if isinstance(value, list):
        return _listed(value)
    if not isinstance(value, dict):
        return []
    if (record := record_of(value)) is not None:
        return [record]
    if listed := [record for item in value.values() if isinstance(item, list) for record in _listed(item)]:
        return listed
    texts = [text for text in _strings(value) if "\n" in text]
    return [Record("\n".join(texts))] if texts else []


def _listed(items: list[Any]) -> list[Record]:
    """Return the records of a list that is made of them: of its items, or of a part of each (`attributes`)."""
    if not all(isinstance(item, dict) for item in items):
        return []
    parts = ([item, *(part for part in item.values() if isinstance(part, dict))] for item in items)
    records = (next((record for part in each if (record := record_of(part)) is not None), None) for each in parts)
    found = [record for record in records if record is not None]
    if 2 * len(found) < len(items):
        return []
    return [found[index] for index in oldest_first([record.time for record in found])]


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield the texts in an object, in its order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)) and depth < MAX_DEPTH:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item, depth + 1)


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data.rstrip(b", \r"))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _cut_json(data: bytes) -> Any:
    """Decode an object whose end was cut off, as pastes and terminals do: what stands in it is complete up to there."""
    if not data.startswith(b'{"') or len(data) > LONGEST_CUT:
        return None
    return next((value for closing in _CLOSINGS if (value := _json(data.rstrip(b", \r.") + closing)) is not None), None)


def _lines(lines: Iterator[RawLine]) -> Iterator[TextLine]:
    for raw in lines:
        yield from _pretty(raw, lines) if raw.data.strip() == b"{" else _line(raw)


def _line(raw: RawLine) -> Iterator[TextLine]:
    if (found := _decode(raw.data)) is not None:
        for record in found[0]:
            yield from _text_lines(record, raw, found[1])
    else:
        yield from plain_line(raw)


def _text_lines(record: Record, raw: RawLine, stream: str = "") -> Iterator[TextLine]:
    for text in record.text.split("\n"):
        if (text := text.rstrip("\r")).strip():
            yield TextLine(
                text=text, line=raw.number, offset=raw.offset, time=record.time, stream=stream or record.stream
            )


def _pretty(first: RawLine, lines: Iterator[RawLine]) -> Iterator[TextLine]:
    """Yield a record that begins with a line `{` and ends with a line `}` of the same indentation."""
    closing = first.data[: len(first.data) - len(first.data.lstrip())] + b"}"
    block = [first]
    size = 0
    for raw in lines:
        block.append(raw)
        size += len(raw.data)
        if raw.data.rstrip(b", \r") == closing:
            value = _json(b"\n".join(line.data for line in block))
            record = record_of(value) if isinstance(value, dict) else None
            if record is not None:
                yield from _text_lines(record, first)
                return
            break
        if len(block) > MAX_PRETTY_LINES or size > MAX_PRETTY_BYTES:
            break
    for raw in block:
        yield from plain_line(raw)


def _has_pretty_record(head: bytes) -> bool:
    """Say whether a pretty-printed object with a message is in the head."""
    return re.search(rb'^\s*"(?:message|msg|log|MESSAGE|line|textPayload)"\s*:\s*"', head, re.MULTILINE) is not None


JSON_LINES = JsonLinesReader()
