"""Logs that a backend or a dashboard saved as CSV: Grafana and Loki, CloudWatch Logs Insights, Datadog, Kibana, Splunk.

One column holds the message, others its time and origin, in any order; a message may hold quotes and line ends. The
newest comes first as often as not, so that rows are put in order of time.
"""

from __future__ import annotations

import csv
import re
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import msgspec

from firstfault.model import TextLine
from firstfault.scan.limits import MIB
from firstfault.scan.readers.base import HEAD_IS_ALL, MAX_LINE_BYTES, RawLine, iter_lines, plain_line
from firstfault.scan.readers.chronology import LATEST_PLACE, is_newest_first, oldest_first
from firstfault.scan.readers.records import Record, record_of
from firstfault.scan.readers.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.scan.readers.joint import JointAnalysis

__all__ = ["CSV_EXPORT", "CsvExportReader"]

# A row of more bytes is none: a quote that nobody closed.
LONGEST_ROW = 4 * MIB
# So many bytes of rows are kept to put them in order of time; of a longer export only the direction is told from them.
MOST_KEPT, COST_OF_ROW = 128 * MIB, 512
DELIMITERS = ",;\t"
DETECT_ROWS = 20
# Lines of text that may follow a row and belong to it.
MOST_LINES = 1000

# Names of columns in small letters, the most telling first.
_ALONE = ("line", "log line", "log", "message", "@message", "_raw")
_MESSAGES = (
    *_ALONE, "content", "log message", "logmessage", "event.original", "textpayload", "msg", "@m", "text", "body",
    "event", "short_message", "_source",
)  # fmt: skip
_TIMES = (
    "tsns", "timestamp", "@timestamp", "time", "_time", "@t", "date", "datetime", "ts", "eventtime", "event time",
    "log time", "receivetimestamp", "ingestiontime", "timeunixnano", "asctime", "time (utc)", "timestamp (utc)",
)  # fmt: skip
_ORIGINS = {
    "pod": "pod", "pod_name": "pod", "pod name": "pod", "kubernetes.pod.name": "pod", "kubernetes.pod_name": "pod",
    "k8s.pod.name": "pod", "resource.labels.pod_name": "pod", "host": "host", "hostname": "host", "host.name": "host",
    "logstream": "host", "@logstream": "host", "log stream": "host", "logstreamname": "host", "log stream name": "host",
    "instance": "host",
}  # fmt: skip
# What stands beside a message and is part of what the program said.
_TRACES = frozenset({
    "exception", "stack_trace", "stacktrace", "error.stack_trace", "error.stack", "exception.stacktrace", "error_trace",
})  # fmt: skip
_KIBANA_TIME = re.compile(r"([A-Z][a-z]{2}) (\d{1,2}), (\d{4}) @ (\d\d:\d\d:\d\d\.\d{1,6})", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class _Columns(NamedTuple):
    """Which cells of a row are what.

    Attributes:
        delimiter: What stands between the cells.
        width: How many there are.
        messages: Places of the messages; the first that is not empty counts.
        times: Places of the times; the first that is one counts.
        origins: (place, name) of what tells who wrote a line.
        traces: Places of tracebacks beside the message.
    """

    delimiter: str
    width: int
    messages: tuple[int, ...]
    times: tuple[int, ...]
    origins: tuple[tuple[int, str], ...]
    traces: tuple[int, ...]


class _Entry(NamedTuple):
    """A record, or text that is none (`record` is None), and the lines on which it stands."""

    record: Record | None
    lines: list[RawLine]


class CsvExportReader:
    """Prints the message of each row, in order of time."""

    kind = "log-export"

    def detect(self, head: bytes) -> bool:
        """Say whether the first line names a column of messages, and one of times where there are several columns."""
        lines = _numbered(head)
        columns = _columns(lines)
        if columns is None:
            return False
        entries = list(islice(_entries(lines, columns), DETECT_ROWS))
        whole = entries[:-1] if len(entries) > 1 and len(head) >= HEAD_IS_ALL else entries
        return bool(whole) and all(entry.record is not None for entry in whole)

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield the lines of the messages; what is no row comes out as it is."""
        del source_name, joint
        lines = iter_lines(stream)
        columns = _columns(lines)
        if columns is None:
            return
        entries = _entries(lines, columns)
        kept: list[_Entry] = []
        size = 0
        for entry in entries:
            kept.append(entry)
            size += COST_OF_ROW + 2 * sum(len(raw.data) for raw in entry.lines)
            if size > MOST_KEPT:
                yield from _in_direction(kept, entries)
                return
        yield from _sorted(kept)


def _numbered(head: bytes) -> Iterator[RawLine]:
    return (RawLine(number, 0, line.rstrip(b"\r")) for number, line in enumerate(head.split(b"\n"), start=1))


def _columns(lines: Iterator[RawLine]) -> _Columns | None:
    """Read the header; None if it is none of a log."""
    delimiters = DELIMITERS
    for raw in lines:
        text = raw.data.decode("utf-8", "replace").lstrip("\ufeff").rstrip("\r")
        if text[:4] == "sep=" and len(text) == len("sep=,"):  # for spreadsheets
            delimiters = text[4]
        elif text.strip():
            return next((found for each in delimiters if (found := _named(text, each)) is not None), None)
    return None


def _named(header: str, delimiter: str) -> _Columns | None:
    try:
        cells = next(csv.reader([header], delimiter=delimiter), [])
    except csv.Error:
        return None
    names = [cell.strip().lower() for cell in cells]
    wanted = _MESSAGES if len(names) > 1 else _ALONE
    messages = sorted(
        (wanted.index(name), place) for place, name in enumerate(map(_plain_name, names)) if name in wanted
    )
    times = sorted((_TIMES.index(name), place) for place, name in enumerate(names) if name in _TIMES)
    if not messages or (len(names) > 1 and not times):
        return None
    return _Columns(
        delimiter,
        len(names),
        tuple(place for _, place in messages),
        tuple(place for _, place in times),
        tuple((place, _ORIGINS[name]) for place, name in enumerate(names) if name in _ORIGINS),
        tuple(place for place, name in enumerate(names) if name in _TRACES),
    )


def _plain_name(name: str) -> str:
    """Return the name of a field without what it is nested in: `jsonPayload.message`, `_source.log`."""
    return name if name in _MESSAGES else name.rpartition(".")[2]


class _TooLongError(Exception):
    """A row goes on and on."""


def _entries(lines: Iterator[RawLine], columns: _Columns) -> Iterator[_Entry]:
    """Yield the records; text that is none goes with the record before it, so that they stay together."""
    last: _Entry | None = None
    for cells, taken in _rows(lines, columns.delimiter):
        record = _record(cells, columns)
        if record is None and last is not None and last.record is not None and len(last.lines) < MOST_LINES:
            more = "\n".join(raw.data.decode("utf-8", "replace") for raw in taken)
            last = _Entry(msgspec.structs.replace(last.record, text=f"{last.record.text}\n{more}"), last.lines + taken)
            continue
        if last is not None:
            yield last
        last = _Entry(record, taken)
    if last is not None:
        yield last


def _rows(lines: Iterator[RawLine], delimiter: str) -> Iterator[tuple[list[str], list[RawLine]]]:
    """Yield the cells of each row and its lines; no cells for lines that are no row, as their quote never closes."""
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_BYTES))
    taken: list[RawLine] = []
    size = 0

    def feed() -> Iterator[str]:
        nonlocal size
        for raw in lines:
            taken.append(raw)
            size += len(raw.data) + 1
            if size > LONGEST_ROW:
                raise _TooLongError
            yield raw.data.decode("utf-8", "replace").rstrip("\r") + "\n"

    while True:
        try:
            for cells in csv.reader(feed(), delimiter=delimiter):
                if cells:
                    yield [cell.rstrip("\n") for cell in cells], taken
                taken, size = [], 0
        except (_TooLongError, csv.Error):
            # Whatever opened the quote, all of it is text: to try each of its lines again could take for ever.
            for raw in taken:
                yield [], [raw]
            taken, size = [], 0
        else:
            return


def _record(cells: list[str], columns: _Columns) -> Record | None:
    """Return the record that a row is, or None if it has no message."""
    last = columns.width - 1
    if len(cells) > columns.width and columns.messages[0] == last:  # a message with commas and without quotes
        cells = [*cells[:last], columns.delimiter.join(cells[last:])]
    if len(cells) < columns.width:
        return None
    message = next((cells[at] for at in columns.messages if cells[at].strip()), "")
    record = record_of({"log": message, **{name: cells[at] for at, name in columns.origins}}) if message else None
    if record is None:
        return None
    traces = [cells[at] for at in columns.traces if "\n" in cells[at]]
    times = (found for at in columns.times if (found := _time(cells[at])) is not None)
    # What the message itself says is when it was written; the backend may say when it came in.
    time = record.time if record.time is not None else next(times, None)
    return Record("\n".join([record.text, *traces]), time, record.stream)


def _time(text: str) -> float | None:
    text = text.strip()
    if (match := _KIBANA_TIME.fullmatch(text)) is not None and match[1] in _MONTHS:
        month, day = _MONTHS.index(match[1]) + 1, int(match[2])
        return parse_time(f"{match[3]}-{month:02}-{day:02} {match[4]}")
    return parse_time(text)


def _time_of(entry: _Entry) -> float | None:
    return None if entry.record is None else entry.record.time


def _sorted(entries: list[_Entry]) -> Iterator[TextLine]:
    order = oldest_first([_time_of(entry) for entry in entries])
    for place, line in enumerate((line for index in order for line in _lines(entries[index])), start=1):
        yield msgspec.structs.replace(line, place=place)


def _in_direction(kept: list[_Entry], others: Iterator[_Entry]) -> Iterator[TextLine]:
    """Yield the lines of an export that is too large to be sorted; where the newest comes first, counted down."""
    backwards = is_newest_first([_time_of(entry) for entry in kept])
    place = LATEST_PLACE if backwards else 0
    for entry in chain(kept, others):
        found = list(_lines(entry))
        place -= len(found) if backwards else 0
        for number, line in enumerate(found, start=1):
            yield msgspec.structs.replace(line, place=place + number)
        place += 0 if backwards else len(found)


def _lines(entry: _Entry) -> Iterator[TextLine]:
    """Yield the lines of a record, each with the line of the source on which it stands."""
    record, lines = entry
    if record is None:
        yield from (line for raw in lines for line in plain_line(raw))
        return
    for number, text in enumerate(record.text.split("\n")):
        if text.strip():
            raw = lines[min(number, len(lines) - 1)]
            yield TextLine(
                text=text.rstrip("\r"), line=raw.number, offset=raw.offset, time=record.time, stream=record.stream
            )


CSV_EXPORT = CsvExportReader()
