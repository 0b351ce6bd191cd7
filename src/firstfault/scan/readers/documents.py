"""Readers of JSON and YAML documents. What a value is decides its own fields, not the file around it.

One file may hold several kinds of documents; each value goes to whoever understands it. Text between values, and
values that nobody understands, are handed on as plain lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from firstfault.errors import LimitError
from firstfault.model import TextLine
from firstfault.scan.limits import MIB
from firstfault.scan.readers import exports, flight_recorder, kubernetes, model_config, security_groups, terraform
from firstfault.scan.readers import torchrun_error as torchrun
from firstfault.scan.readers.base import HEAD_IS_ALL, RawLine, plain_lines, read_document
from firstfault.scan.readers.facts import Context, mappings, text_of
from firstfault.scan.readers.json_values import SEARCH_WINDOW, Found, Places, iter_json
from firstfault.scan.readers.monitoring import MONITORING_KINDS, monitoring_facts
from firstfault.scan.readers.records import record_of

if TYPE_CHECKING:
    from firstfault.scan.readers.joint import JointAnalysis

__all__ = [
    "FLIGHT_RECORDER",
    "KUBERNETES",
    "KUBERNETES_YAML",
    "LOG_EXPORT",
    "LOG_QUERY",
    "MODEL_CONFIG",
    "SECURITY_GROUPS",
    "TERRAFORM",
    "TORCHRUN_ERROR",
    "JsonReader",
    "YamlReader",
]

# A YAML document takes a hundred times its size in memory, and its parser does 10 MB a second.
MAX_YAML = 32 * MIB
MAX_YAML_FACTS = 500_000


Object = dict[str, Any]
Tells = Callable[[Object], bool]
Facts = Callable[[Object, Context], Iterator[TextLine]]


def value_facts(value: Any, context: Context) -> Iterator[TextLine] | None:
    """Return the facts of a decoded value, or None if nobody understands it.

    Args:
        value: One JSON or YAML document, or one member of a list of objects.
        context: Where it stands.
    """
    if isinstance(value, list):
        return _list_facts(value, context)
    if not isinstance(value, dict):
        return None
    return next((facts(value, context) for tells, facts in _HANDLERS if tells(value)), None)


def _list_facts(value: list[Any], context: Context) -> Iterator[TextLine] | None:
    """Return the facts of a list: the bare dump of torch 2.2, or objects (Google Cloud, support bundles)."""
    if flight_recorder.is_dump(value):
        return flight_recorder.dump_facts(value, context)
    members = mappings(value)
    if members and all(any(tells(member) for tells, _ in _HANDLERS) for member in members[:3]):
        return (line for member in members for line in value_facts(member, context) or ())
    return None


def _record_facts(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    record = record_of(value)
    if record is not None:
        yield from context.print("", record.text, needle=record.text[:30], time=record.time, stream=record.stream)


# Who understands a mapping; the first that says so gets it.
_HANDLERS: tuple[tuple[Tells, Facts], ...] = (
    (lambda value: "SecurityGroups" in value or "SecurityGroupRules" in value, security_groups.security_group_facts),
    (terraform.is_terraform, terraform.plan_facts),
    (flight_recorder.is_dump, flight_recorder.dump_facts),
    (torchrun.is_torchrun_error, torchrun.error_facts),
    (kubernetes.is_kubernetes_object, kubernetes.object_facts),
    (exports.is_export, exports.export_facts),
    (model_config.is_model_config, model_config.config_facts),
    (lambda value: record_of(value) is not None, _record_facts),
)  # fmt: skip


class JsonReader:
    """Reads JSON documents, one or more, with or without text around them.

    Args:
        kind: What the document is, for the report.
        marks: What the head must hold: names that only this kind has.
    """

    def __init__(self, kind: str, marks: str) -> None:
        self.kind = kind
        self._marks = re.compile(marks.encode())

    def detect(self, head: bytes) -> bool:
        """Say whether the head begins a JSON document of this kind."""
        begins = _BEGINS if len(head) < HEAD_IS_ALL else _BEGINS_SOON
        return begins.search(head) is not None and self._marks.search(head) is not None

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield the facts of every value.

        Raises:
            LimitError: The document is too large.
        """
        text = read_document(stream, source_name).decode("utf-8-sig", "replace")
        places = Places(text)
        for found in iter_json(text):
            context = Context(places, found.start, found.end, source_name, joint)
            facts = None if found.text else value_facts(found.value, context)
            yield from _text_of(text, found, places) if facts is None else facts


def _text_of(text: str, found: Found, places: Places) -> Iterator[TextLine]:
    line, offset = places.place(found.start)
    start = text.rfind("\n", 0, found.start) + 1
    yield from plain_lines(text[start : found.end].encode("utf-8", "replace"), line, offset)


_OPENING = rb"[ \t]*(?:\{\s*[\"}]|\[\s*[{\"\]])"
_BEGINS_SOON = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:[^\n]{0,400}\n){0,5}?" + _OPENING)
_BEGINS = re.compile(rb"(?m)(?:^|\A\xef\xbb\xbf)" + _OPENING)
_YAML_BEGINS = re.compile(
    rb"(?m)^(?:- )?(?:apiVersion|kind): *[\"']?[\w./-]+[\"']? *\r?$|^ *(?:- )?containerStatuses: *\r?$|^status: *\r?$"
)
# A line at the margin that is no field of an object (they begin with a small letter), no item, comment or mark.
_NO_FIELD = re.compile(rb"(?![\"']?[a-z][A-Za-z0-9]*[\"']?:(?:\s|$)|-\s|#|---|\.\.\.|[\]}])\S")
_YAML_BREAK = re.compile(rb"(?m)^---[ \t]*(?:#.*)?\r?$")


class YamlReader:
    """Kubernetes objects in YAML, several documents in a row, whole or in part."""

    kind = "kubernetes"

    def detect(self, head: bytes) -> bool:
        """Say whether lines of the head are the first fields of an object."""
        return _YAML_BEGINS.search(head) is not None and not head.lstrip().startswith((b"{", b"["))

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield the facts of every document; one that is no YAML comes out as plain lines.

        Raises:
            LimitError: A document is too large.
        """
        data = read_document(stream, source_name)
        line, begin = 1, 0
        for end, after in [
            *((match.start(), match.end()) for match in _YAML_BREAK.finditer(data)),
            (len(data), len(data)),
        ]:
            for is_text, part, at in _yaml_blocks(data[begin:end], (line, begin)):
                yield from plain_lines(part, *at) if is_text else self._document(part, at, source_name, joint)
            line += data.count(b"\n", begin, after)
            begin = after

    def _document(
        self, data: bytes, at: tuple[int, int], source_name: str, joint: JointAnalysis | None
    ) -> Iterator[TextLine]:
        if not data.strip():
            return
        if len(data) > MAX_YAML:
            raise LimitError(
                f"{source_name}: a YAML document of {len(data):,} bytes", "export it with `-o json` instead"
            )
        # A prompt line above the document (`$ kubectl get pod -o yaml`) is no YAML.
        skipped = re.match(rb"(?:[$#][^\n]*\n|[ \t\r]*\n)*", data)
        start = skipped.end() if skipped else 0
        value = _load_yaml(data[start:])
        begins = _YAML_BEGINS.search(data)
        if value is None and begins is not None and begins.start() > start:
            # Words of a tool above it: they are lines of their own.
            value = _load_yaml(data[begins.start() :])
            if value is not None:
                yield from plain_lines(data[: begins.start()], *at)
                at = at[0] + data.count(b"\n", 0, begins.start()), at[1] + begins.start()
                data, start = data[begins.start() :], 0
        if isinstance(value, dict) and text_of(value.get("kind")) in MONITORING_KINDS:
            yield from monitoring_facts(_numbered(data, at))
            return
        places = _ShiftedPlaces(data.decode("utf-8", "replace"), at)
        facts = value_facts(value, Context(places, start, len(places.text), source_name, joint))
        if facts is None:
            yield from plain_lines(data, *at)
            return
        # Anchors let a few bytes stand for any number of objects (`[*a, *a, …]` of `[*b, *b, …]`).
        yield from islice(facts, MAX_YAML_FACTS)
        if next(facts, None) is not None:
            raise LimitError(
                f"{source_name}: a YAML document that stands for more than {MAX_YAML_FACTS:,} facts",
                "export it with `-o json` instead",
            )


def _yaml_blocks(data: bytes, at: tuple[int, int]) -> Iterator[tuple[bool, bytes, tuple[int, int]]]:
    """Cut what was pasted above and below an object off it: (whether it is such text, bytes, line and offset).

    An error message with a colon in it is YAML, too, and would become a field that nobody asks for.
    """
    line, begin = at
    rows = data.splitlines(keepends=True)
    is_text = next((_NO_FIELD.match(row) is not None for row in rows if row.strip()), False)
    block: list[bytes] = []
    for row in rows:
        starts_other = _YAML_BEGINS.match(row) if is_text else _NO_FIELD.match(row)
        if starts_other and block:
            part = b"".join(block)
            yield is_text, part, (line, begin)
            line, begin, block = line + len(block), begin + len(part), []
        is_text = is_text != bool(starts_other)
        block.append(row)
    if block:
        yield is_text, b"".join(block), (line, begin)


def _numbered(data: bytes, at: tuple[int, int]) -> Iterator[RawLine]:
    """Yield the lines of a document that begins at a line and byte of its source."""
    line, offset = at
    for number, text in enumerate(data.split(b"\n"), start=line):
        yield RawLine(number, offset, text)
        offset += len(text) + 1


class _ShiftedPlaces(Places):
    """Places within one document of several."""

    def __init__(self, text: str, at: tuple[int, int]) -> None:
        super().__init__(text)
        self._shift = at

    def find(self, needle: str, start: int, end: int) -> tuple[int, int]:
        """Look for a string as JSON would write it, and as YAML does."""
        plain = needle.replace('\\"', '"')
        bare = f"{plain.strip(chr(34))}:" if plain.startswith('"') else plain
        if self.text.find(bare, start, min(end, start + SEARCH_WINDOW)) < 0 and " " in bare:
            bare = bare[:24].rsplit(" ", 1)[0]  # YAML folds long texts
        line, offset = super().find(bare, start, end)
        return line + self._shift[0] - 1, offset + self._shift[1]


def _load_yaml(data: bytes) -> Any:
    """Return the value of a document, or None if it is no YAML."""
    import yaml  # noqa: PLC0415 - 10 ms that JSON need not pay

    try:
        return yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe loader
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError, AttributeError, TypeError):
        return None


SECURITY_GROUPS = JsonReader("security-groups", r'"SecurityGroup(?:s|Rules)"\s*:')
TERRAFORM = JsonReader("terraform-plan", r'"terraform_version"\s*:')
FLIGHT_RECORDER = JsonReader("flight-recorder", r'"(?:pg_config|profiling_name)"\s*:')
TORCHRUN_ERROR = JsonReader("torchrun-error", r'"(?:py_callstack|extraInfo)"\s*:')
LOG_EXPORT = JsonReader("log-export", r'"(?:resultType|logEvents|resourceLogs|ingestionTime|logStreamName)"\s*:')
LOG_QUERY = JsonReader("log-export", r'"(?:hits|textPayload|jsonPayload|dmesg)"\s*:|"@ptr"')
KUBERNETES = JsonReader(
    "kubernetes", r'"(?:apiVersion|involvedObject|containerStatuses|nodeInfo|lastTransitionTime)"\s*:'
)
MODEL_CONFIG = JsonReader(
    "model-config", r'"(?:max_position_embeddings|num_hidden_layers|n_positions|n_layers?|num_layers)"\s*:'
)
KUBERNETES_YAML = YamlReader()
