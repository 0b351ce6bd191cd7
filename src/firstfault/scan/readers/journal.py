"""The systemd journal: `journalctl -o export` and `-o json`.

Lines come out as `identifier[pid]: message`, as in /var/log/messages; time and host go into the fields of the line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from firstfault.model import TextLine
from firstfault.scan.limits import MIB
from firstfault.scan.readers.base import RawLine, in_order, iter_lines, plain_line
from firstfault.scan.readers.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.scan.readers.joint import JointAnalysis

__all__ = ["JournalExportReader", "JournalJsonReader"]

KIND = "journal"
# Fields of an entry that are kept; a hostile export may have any number of others.
_FIELDS = frozenset({
    "MESSAGE", "_HOSTNAME", "SYSLOG_IDENTIFIER", "_COMM", "_PID", "SYSLOG_PID", "_TRANSPORT", "__REALTIME_TIMESTAMP",
    "_SOURCE_REALTIME_TIMESTAMP",
})  # fmt: skip
MAX_FIELD = 4 * MIB
LONGEST_WORD = 200


def _entry_lines(fields: dict[str, Any], line: int | None, offset: int | None) -> Iterator[TextLine]:
    """Yield the message of an entry; each of its lines bears the identifier."""
    message = _message(fields.get("MESSAGE"))
    transport = fields.get("_TRANSPORT")
    given = _word(fields.get("SYSLOG_IDENTIFIER")) or _word(fields.get("_COMM"))
    identifier = "kernel" if transport == "kernel" else given
    pid = _word(fields.get("SYSLOG_PID")) or _word(fields.get("_PID"))
    prefix = (
        f"{identifier}[{pid}]: "
        if identifier and pid and transport != "kernel"
        else f"{identifier}: "
        if identifier
        else ""
    )
    time = parse_time(fields.get("_SOURCE_REALTIME_TIMESTAMP") or fields.get("__REALTIME_TIMESTAMP"))
    host = fields.get("_HOSTNAME")
    for text in message.split("\n"):
        if text.strip():
            yield TextLine(
                text=prefix + text.rstrip("\r"),
                line=line,
                offset=offset,
                time=time,
                stream=host if isinstance(host, str) else "",
            )


def _word(value: Any) -> str:
    """A field that goes before each line of a message: one line itself, whatever the journal was given."""
    return " ".join(str(value).split())[:LONGEST_WORD] if isinstance(value, (str, int)) else ""


def _message(value: Any) -> str:
    """Return a message; journalctl prints one that is no UTF-8 as a list of bytes, and a repeated field as a list."""
    if isinstance(value, list):
        if value and all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
            return bytes(value).decode("utf-8", "replace")
        return "\n".join(item for item in value if isinstance(item, str))
    return value if isinstance(value, str) else ""


class JournalJsonReader:
    """One JSON object per line, with `MESSAGE` and `__REALTIME_TIMESTAMP`."""

    kind = KIND

    def detect(self, head: bytes) -> bool:
        """Say whether the first line has the fields that every entry of the journal has."""
        first = head.lstrip().split(b"\n", 1)[0]
        return first.startswith(b"{") and b'"__REALTIME_TIMESTAMP"' in first and b'"MESSAGE"' in head

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Return the messages."""
        del source_name, joint
        return in_order(_json_entries(stream))


def _json_entries(stream: BinaryIO) -> Iterator[TextLine]:
    for number, offset, data in iter_lines(stream):
        try:
            fields = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            fields = None
        if isinstance(fields, dict):
            yield from _entry_lines(fields, number, offset)
        else:
            yield from plain_line(RawLine(number, offset, data))


_EXPORT_HEAD = re.compile(rb"\A(?:__CURSOR|__REALTIME_TIMESTAMP|__MONOTONIC_TIMESTAMP|_BOOT_ID)=")


class JournalExportReader:
    r"""`KEY=value` lines, an empty line behind each entry; a value with line feeds is `KEY\n<length><bytes>\n`."""

    kind = KIND

    def detect(self, head: bytes) -> bool:
        """Say whether the head begins with one of the fields that journald puts first."""
        return _EXPORT_HEAD.match(head) is not None

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Return the messages."""
        del source_name, joint
        return in_order(_export_entries(stream))


def _export_entries(stream: BinaryIO) -> Iterator[TextLine]:
    fields: dict[str, Any] = {}
    offset = begin = 0
    while data := stream.readline(MAX_FIELD):
        size = len(data)
        if not (line := data.rstrip(b"\n")):
            yield from _entry_lines(fields, None, begin)
            fields, begin = {}, offset + size
        elif b"=" in line:
            key, _, value = line.partition(b"=")
            _keep(fields, key, value)
        else:
            value, extra = _binary_value(stream)
            size += extra
            _keep(fields, line, value)
        offset += size
    yield from _entry_lines(fields, None, begin)


def _keep(fields: dict[str, Any], key: bytes, value: bytes) -> None:
    name = key.decode("utf-8", "replace")
    if name in _FIELDS:
        fields[name] = value.decode("utf-8", "replace")


def _binary_value(stream: BinaryIO) -> tuple[bytes, int]:
    """Read a value with its length before it; return it, cut at the limit, and the bytes that it took."""
    length = int.from_bytes(stream.read(8), "little")
    value = stream.read(min(length, MAX_FIELD))
    taken = 8 + len(value)
    left = length - len(value)
    while left > 0 and (skipped := stream.read(min(left, MAX_FIELD))):
        left -= len(skipped)
        taken += len(skipped)
    return value, taken + len(stream.read(1))


JOURNAL_EXPORT = JournalExportReader()
JOURNAL_JSON = JournalJsonReader()
