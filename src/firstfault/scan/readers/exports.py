"""Documents in which a log backend hands out lines: Loki, CloudWatch, Elasticsearch, OpenTelemetry, dmesg.

They come newest first as often as not, so the lines of one document are put in order of time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.scan.readers.facts import Context, items, mapping, mappings, text_of
from firstfault.scan.readers.records import Record, record_of, unwrap
from firstfault.scan.readers.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from firstfault.model import TextLine

__all__ = ["export_facts", "is_export"]

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
    return [Record(f"kernel: {text_of(entry.get('msg'))}") for entry in mappings(value.get("dmesg"))]


def _record(message: str, time: Any, origin: str) -> Record:
    inner = unwrap(message)
    return Record(inner.text, inner.time if inner.time is not None else parse_time(time), inner.stream or origin)


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
    """Yield the lines of an export in order of time; those without a time stay where they are."""
    records = next(read(value) for tells, read in _BACKENDS if tells(value))
    if all(record.time is not None for record in records):
        records.sort(key=lambda record: record.time or 0.0)
    for record in records:
        yield from context.print("", record.text, needle=None, time=record.time, stream=record.stream)
