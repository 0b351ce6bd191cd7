"""Documents in which a log backend hands out lines: Loki, CloudWatch, Elasticsearch, OpenTelemetry, dmesg.

They come newest first as often as not, so the lines of one document are put in order of time.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.scan.readers.chronology import oldest_first
from firstfault.scan.readers.facts import Context, items, mapping, mappings, text_of
from firstfault.scan.readers.records import Record, record_of, unwrap
from firstfault.scan.readers.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from firstfault.model import TextLine

__all__ = ["export_facts", "is_export"]

# How much of a message is looked for, how far, and after how many that are not found as they are nobody looks on.
NEEDLE, REACH, MOST_MISSES = 120, 4 * 1024 * 1024, 64

Records = list[Record]


def _loki(value: dict[str, Any]) -> Records:
    records: Records = []
    for stream in mappings(mapping(value, "data").get("result")):
        labels = mapping(stream, "stream")
        origin = "/".join(text_of(labels.get(key)) for key in ("namespace", "pod", "container") if labels.get(key))
        pairs = (pair for pair in items(stream.get("values")) if isinstance(pair, list) and len(pair) > 1)
        records.extend(_record(text_of(pair[1]), pair[0], origin) for pair in pairs)
    return records


def _cloudwatch(value: dict[str, Any]) -> Records:
    events = mappings(value.get("events")) or mappings(value.get("logEvents"))
    origin = text_of(value.get("logStream"))
    return [
        _record(text_of(event.get("message")), event.get("timestamp"), text_of(event.get("logStreamName")) or origin)
        for event in events
    ]


def _insights(value: dict[str, Any]) -> Records:
    records = []
    for row in items(value.get("results")):
        fields = {text_of(cell.get("field")): text_of(cell.get("value")) for cell in mappings(row)}
        message = fields.get("@message") or fields.get("log") or fields.get("message") or ""
        records.append(_record(message, fields.get("@timestamp"), fields.get("@logStream", "")))
    return records


def _elastic(value: dict[str, Any]) -> Records:
    sources = [mapping(hit, "_source") for hit in mappings(mapping(value, "hits").get("hits"))]
    return [record for source in sources if (record := record_of(source)) is not None]


def _open_telemetry(value: dict[str, Any]) -> Records:
    found = [
        record_of(entry)
        for resource in mappings(value.get("resourceLogs"))
        for scope in mappings(resource.get("scopeLogs"))
        for entry in mappings(scope.get("logRecords"))
    ]
    return [record for record in found if record is not None]


def _dmesg(value: dict[str, Any]) -> Records:
    # The time is that since boot: it orders the lines, but is no date.
    messages = [text_of(entry.get("msg")) for entry in mappings(value.get("dmesg"))]
    return [Record(f"kernel: {message}", raw=message) for message in messages]


def _record(message: str, time: Any, origin: str) -> Record:
    inner = unwrap(message)
    return Record(
        inner.text, inner.time if inner.time is not None else parse_time(time), inner.stream or origin, message
    )


# What a document of each backend has, and how its lines are found.
_BACKENDS: tuple[tuple[Callable[[dict[str, Any]], bool], Callable[[dict[str, Any]], Records]], ...] = (
    (lambda value: bool(mappings(mapping(value, "data").get("result"))), _loki),
    (lambda value: any("message" in event for event in mappings(value.get("events"))[:3]), _cloudwatch),
    (lambda value: any("message" in event for event in mappings(value.get("logEvents"))[:3]), _cloudwatch),
    (
        lambda value: any("field" in cell for row in items(value.get("results"))[:3] for cell in mappings(row)),
        _insights,
    ),
    (lambda value: bool(mappings(mapping(value, "hits").get("hits"))), _elastic),
    (lambda value: bool(mappings(value.get("resourceLogs"))), _open_telemetry),
    (lambda value: any("msg" in entry for entry in mappings(value.get("dmesg"))[:3]), _dmesg),
)


def is_export(value: dict[str, Any]) -> bool:
    """Say whether a document is an export of log lines."""
    return any(tells(value) for tells, _ in _BACKENDS)


def export_facts(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Yield the lines of an export in order of time; those without a time stay where they are.

    Each line bears the number of its record in the document and, where its message is found there, line and offset.
    """
    records = next(read(value) for tells, read in _BACKENDS if tells(value))
    finder = _Finder(context)
    before = finder.number(len(records))
    numbered = [(record, number, finder.place(record)) for number, record in enumerate(records, start=before + 1)]
    place = before
    for index in oldest_first([record.time for record in records]):
        record, number, (line, offset) = numbered[index]
        for text in context.print("", record.text, needle=None, time=record.time, stream=record.stream):
            place += 1
            yield msgspec.structs.replace(text, line=line, offset=offset, place=place, entry=number)


class _Finder:
    """Finds the messages of records in the text of their document, one behind the other, in one pass."""

    def __init__(self, context: Context) -> None:
        self._places = context.places
        self._end = context.end
        self._misses = 0
        if context.places is not None:
            start = context.start
            self._line, line_offset = context.places.place(start)
            before = context.places.text[context.places.text.rfind("\n", 0, start) + 1 : start]
            self._at, self._offset = start, line_offset + len(before.encode("utf-8", "replace"))

    def number(self, count: int) -> int:
        """Return how many records other documents of the source had, and count these."""
        if self._places is None:
            return 0
        before = self._places.records
        self._places.records += count
        return before

    def place(self, record: Record) -> tuple[int | None, int | None]:
        """Return line and byte offset of a record's message; None where it is not found as it is."""
        message = (record.raw or record.text)[:NEEDLE]
        if self._places is None or not message or self._misses >= MOST_MISSES:
            return None, None
        text = self._places.text
        limit = min(self._end, self._at + REACH)
        for ascii_only in (True, False):
            needle = json.dumps(message, ensure_ascii=ascii_only)[1:-1]
            index = text.find(needle, self._at, limit)
            if index >= 0:
                between = text[self._at : index]
                self._line += between.count("\n")
                self._offset += len(between.encode("utf-8", "replace"))
                place = self._line, self._offset
                self._at = index + len(needle)
                self._line += needle.count("\n")
                self._offset += len(needle.encode("utf-8", "replace"))
                return place
        self._misses += 1
        return None, None
