"""Turns one JSON log record, of a program or of a log shipper, into the text that a person would have seen.

Used for lines of JSON logs, for records within exports (Loki, CloudWatch, Elasticsearch) and for JSON within those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.scan.readers.containers import CRI_PREFIX
from firstfault.scan.readers.times import parse_time, parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Record", "record_of", "unwrap"]

# Where programs and shippers keep the message, the most telling first.
MESSAGE_KEYS = (
    "log", "message", "msg", "@message", "MESSAGE", "line", "textPayload", "body", "Body", "event", "_raw", "text",
    "logMessage", "short_message", "@m", "Message", "err", "error",
)  # fmt: skip
TIME_KEYS = (
    "time", "@timestamp", "timestamp", "ts", "date", "Timestamp", "timeUnixNano", "_time", "@t", "asctime", "eventTime",
    "__REALTIME_TIMESTAMP", "datetime", "instant",
)  # fmt: skip
# What shippers add around a message; it says where the line comes from, not what happened.
SHIPPER_KEYS = frozenset({
    "kubernetes", "docker", "labels", "stream", "_p", "logtag", "tag", "tags", "ecs", "agent", "cloud", "input", "host",
    "@metadata", "@version", "source_type", "file", "resource", "stream_name", "log_group", "log_stream", "insertId",
    "receiveTimestamp", "logName", "ingestionTime", "eventId", "logStreamName", "container_id", "container_name",
    "source", "container", "structuredMetadata", "observedTimeUnixNano", "traceId", "spanId", "flags",
    "severityNumber", "caller", "commit", "stacktrace", "reconcileID", "logStream", "@log", "@logStream", "@ptr",
    "partial_id", "partial_last", "partial_message", "partial_ordinal", "aws", "ec2_instance_id", "az",
})  # fmt: skip
# A record of nothing but these is its message.
QUIET_KEYS = SHIPPER_KEYS.union(TIME_KEYS) | {"log", "message", "line", "@message", "textPayload"}
HOST_KEYS = ("logStreamName", "@logStream", "log_stream", "logStream", "host", "hostname", "_HOSTNAME", "instance")
ORIGIN_KEYS = frozenset({
    *HOST_KEYS, "kubernetes", "labels", "stream", "resource", "pod_name", "pod", "k8s_pod_name",
})  # fmt: skip
MAX_DEPTH = 4
MAX_FIELDS = 40
MAX_FIELD_TEXT = 4000


class Record(msgspec.Struct, frozen=True):
    """The text of a record (may hold line feeds), its time, what wrote it, and its message as the source has it."""

    text: str
    time: float | None = None
    stream: str = ""
    raw: str = ""


def record_of(value: dict[str, Any], depth: int = 0) -> Record | None:
    """Return the record that a JSON object is, or None if it has no message.

    Args:
        value: A decoded object.
        depth: How many wrappers were taken off already.
    """
    payload = value.get("jsonPayload")
    if isinstance(payload, dict):
        value = {**value, **payload}
        del value["jsonPayload"]
    key, message = _message(value)
    if not key:
        return None
    inner = unwrap(message, depth + 1)
    time = inner.time
    if time is None:
        for name in TIME_KEYS:
            if name in value and (time := parse_time(value[name])) is not None:
                break
    text = inner.text
    if not value.keys() <= QUIET_KEYS:
        text += "".join(_fields(value, skip=key))
    return Record(text, time, inner.stream or _stream(value))


def unwrap(text: str, depth: int = 0) -> Record:
    """Take off what wraps a message within a record: a CRI prefix, another JSON record.

    Args:
        text: A message.
        depth: How many wrappers were taken off already; deeper ones stay.
    """
    text = text.rstrip("\r\n")
    time = None
    if depth <= MAX_DEPTH and text[:2] == "20" and (match := CRI_PREFIX.match(text[:64].encode())):
        time = parse_timestamp(match[1].decode())
        text = text[match.end() :]
    if depth <= MAX_DEPTH and text.startswith("{") and text.endswith("}"):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            value = None
        if isinstance(value, dict) and (inner := record_of(value, depth)) is not None:
            return Record(inner.text, inner.time if inner.time is not None else time, inner.stream)
    return Record(text, time)


def _message(value: dict[str, Any]) -> tuple[str, str]:
    """Return the key and text of the message; "" if there is none."""
    for key in MESSAGE_KEYS:
        if key not in value:
            continue
        found = value[key]
        if isinstance(found, dict):  # OpenTelemetry: {"stringValue": …}; nested loggers: {"message": …}
            found = found.get("stringValue", found.get("message"))
        if isinstance(found, str) and found:
            return key, found
    return "", ""


def _stream(value: dict[str, Any]) -> str:
    """Return `namespace/pod/container` or whatever else the shipper knows of the origin."""
    if value.keys().isdisjoint(ORIGIN_KEYS):
        return ""
    places: list[Any] = [value.get("kubernetes"), value.get("labels"), value.get("stream"), value]
    resource = value.get("resource")
    if isinstance(resource, dict):
        places.insert(0, resource.get("labels"))
    for place in places:
        if not isinstance(place, dict):
            continue
        pod = place.get("pod_name") or place.get("pod") or place.get("k8s_pod_name")
        if isinstance(pod, dict):  # Elastic Common Schema: kubernetes.pod.name
            pod = pod.get("name")
        if isinstance(pod, str) and pod:
            namespace = place.get("namespace_name") or place.get("namespace") or place.get("k8s_namespace_name")
            container = place.get("container_name") or place.get("container") or place.get("k8s_container_name")
            return "/".join(part for part in (namespace, pod, container) if isinstance(part, str) and part)
    for key in HOST_KEYS:
        if isinstance(origin := value.get(key), str) and origin:
            return origin
    return ""


def _fields(value: dict[str, Any], skip: str) -> Iterator[str]:
    """Yield ` key=value` for what a structured logger put beside its message, `error` first.

    A message may stand in an object of its own, as the errors of web APIs do; what is beside it there is shown, too.
    """
    budget = MAX_FIELDS
    for key, item in sorted(value.items(), key=lambda pair: pair[0] not in {"error", "err", "exception"}):
        if key == skip:
            if not isinstance(item, dict):
                continue
            item = {name: leaf for name, leaf in item.items() if name not in {"message", "stringValue"}}  # noqa: PLW2901
        if key in SHIPPER_KEYS or key in TIME_KEYS or budget <= 0:
            continue
        for name, leaf in _leaves(key, item):
            budget -= 1
            # Text of several lines is a log or a traceback in its own right.
            text = leaf if "\n" in leaf else leaf[:MAX_FIELD_TEXT]
            yield f" {name}={text}"


def _leaves(key: str, item: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the scalars of a field; of nested objects only the first level, and those with a message of their own.

    What passes messages on (health events, conditions, alerts) logs them whole, in an object or a list of them.
    """
    if isinstance(item, dict):
        yield from _members(key, item, depth)
    elif isinstance(item, list):
        if _scalars(item):
            yield key, ",".join(map(str, item))
        elif depth < MAX_DEPTH and _says_something(item):
            for one in item:
                yield from _members(key, one, depth + 1)
    elif isinstance(item, bool):
        yield key, str(item).lower()
    elif item is not None and item != "":
        yield key, str(item)


def _members(key: str, item: dict[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    """Yield the scalars in an object, and what is in those of its objects that have a message."""
    for name, leaf in item.items():
        if isinstance(leaf, (str, int, float)):
            if leaf != "":
                yield f"{key}.{name}", str(leaf)
        elif depth < MAX_DEPTH and (_says_something(leaf) or (depth and _scalars(leaf))):
            yield from _leaves(f"{key}.{name}", leaf, depth + 1)


def _scalars(item: Any) -> bool:
    """Say whether this is a list of numbers or texts."""
    return isinstance(item, list) and bool(item) and all(isinstance(leaf, (str, int, float)) for leaf in item)


def _says_something(item: Any) -> bool:
    """Say whether this is an object with a message of its own, or a list of such."""
    objects = item if isinstance(item, list) else [item]
    return bool(objects) and all(isinstance(one, dict) and isinstance(one.get("message"), str) for one in objects)
