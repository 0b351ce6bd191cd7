"""What watches the GPUs: alert rules, scrape jobs, monitors, and the environment that configuration sets.

People paste such configuration in pieces, so it is read line by line and not as YAML: an alert becomes one fact with
its whole expression, a scrape job one with its interval, a `name`/`value` pair of a container's env one of `env`. What
stands in an alert's labels and annotations describes faults that are not there; it is not handed on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

from firstfault.model import TextLine
from firstfault.scan.readers.base import BEGINNING, HEAD_IS_ALL, iter_lines, plain_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.scan.readers.base import RawLine
    from firstfault.scan.readers.joint import JointAnalysis

__all__ = ["MONITORING", "MONITORING_KINDS", "OPERATOR_PARTS", "MonitoringReader", "monitoring_facts", "seconds_of"]

MONITORING_KINDS = frozenset({"PrometheusRule", "ServiceMonitor", "PodMonitor", "ScrapeConfig", "VMRule"})
_HEAD = re.compile(
    rb"(?m)^ *(?:- *)*(?:alert: *[\"']?[\w{]|job_name: *\S|scrape_configs: *\r?$)"
    rb"|^kind: *[\"']?(?:PrometheusRule|ServiceMonitor|PodMonitor|ScrapeConfig|VMRule)\b"
    rb"|^ *- *name: *[\"']?(?:NCCL_|TORCH_|DCGM_EXPORTER_)\w+[\"']? *\r?$"
    rb"|^ *(?:dcgmExporter|devicePlugin): *(?:#.*)?\r?$"
)
_OTHER_KIND = re.compile(rb"(?m)^kind: *[\"']?(?!PrometheusRule|ServiceMonitor|PodMonitor|ScrapeConfig|VMRule)\w")
_KEY = re.compile(r"^(?P<indent>\s*)(?P<dash>(?:- +)*)[\"']?(?P<key>[A-Za-z_][\w.-]*)[\"']?:(?:\s+(?P<value>.*))?$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_ENV = re.compile(r"(?:NCCL|FI|TORCH|DCGM_EXPORTER|VLLM|CUDA|NVIDIA|GLOO|UCX)_\w+")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w|y)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
OPERATOR_PARTS = ("dcgmExporter", "devicePlugin")  # without which nobody sees, or schedules, a GPU
_RULE_KEYS = frozenset({"alert", "record", "expr", "for"})
_SECRET_FREE = 400  # characters of an expression that are worth a pattern's while
_LINES_OF_A_BLOCK = 200
_LONGEST_DURATION = 40


def seconds_of(duration: str) -> float | None:
    """Return the seconds of a Prometheus duration such as `1h30m`; None if it is none."""
    text = duration.strip().strip("\"'")
    if text == "0":
        return 0.0
    if len(text) > _LONGEST_DURATION:
        return None
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _shown(duration: str, missing: str) -> str:
    seconds = seconds_of(duration) if duration else None
    return missing if seconds is None else f"{seconds:g}"


def _scalar(value: str) -> str:
    return _COMMENT.sub("", value).strip().strip("\"'")


@dataclass
class _Block:
    """A rule or a scrape job whose lines are still coming.

    Attributes:
        kind: What it is: rule, job, env.
        column: Where its keys stand.
        at: Its first line.
    """

    kind: str
    column: int
    at: RawLine
    fields: dict[str, str] = field(default_factory=dict)
    key: str = ""
    lines: int = 0


@dataclass
class _Part:
    """A part of the GPU Operator whose values are at hand: where its name stands, and the keys below it."""

    name: str = ""
    column: int = -1
    child: int = -1


class _Walker:
    """Keeps the block that a line belongs to."""

    def __init__(self) -> None:
        self._block: _Block | None = None
        self._global: dict[str, str] = {}
        self._in_global = -1
        self._kind = ""
        self._object = ""
        self._part = _Part()

    def line(self, raw: RawLine) -> Iterator[TextLine]:
        """Yield what a line says, and itself unless it is part of a rule."""
        text = raw.data.decode("utf-8", "replace").rstrip()
        if not text.strip():
            return
        match = _KEY.match(text)
        column = len(match["indent"]) + len(match["dash"]) if match else len(text) - len(text.lstrip())
        if text.lstrip().startswith("#") and self._block is not None:
            return  # a comment ends nothing
        if self._block is not None:
            if self._takes(self._block, text, match, column):
                if self._block.kind != "rule":
                    yield from plain_line(raw)
                return
            yield from self.finish()
        if match is not None:
            self._learn(match, column)
            self._begin(match, column, raw)
            yield from self._part_of_operator(match, column, raw)
        if self._block is None or self._block.kind != "rule":
            yield from plain_line(raw)

    def finish(self) -> Iterator[TextLine]:
        """Yield the fact of the block that is over."""
        block, self._block = self._block, None
        fact = self._fact(block) if block else ""
        if block and fact:
            yield TextLine(text=fact, line=block.at.number, offset=block.at.offset)

    def _takes(self, block: _Block, text: str, match: re.Match[str] | None, column: int) -> bool:
        """Let a block have a line; False if the block ends before it."""
        block.lines += 1
        inside = column > block.column or (match is None and column >= block.column and block.key == "expr")
        if block.lines > _LINES_OF_A_BLOCK:
            return False
        if inside:
            if block.kind == "rule" and block.key == "expr":
                block.fields["expr"] = f"{block.fields.get('expr', '')} {text.strip()}"[:_SECRET_FREE]
            elif match is not None and match["key"] in {"severity", "regex", "app"}:
                block.fields.setdefault(match["key"], _scalar(match["value"] or ""))
            return True
        if match is None or column < block.column or match["dash"]:
            return False
        block.key = match["key"]
        value = match["value"] or ""
        if block.key == "labels" and (severity := re.search(r"severity: *[\"']?(\w+)", value)):
            block.fields["severity"] = severity[1]
        block.fields[block.key] = "" if re.fullmatch(r"[|>][+-]?\d?", value.strip()) else _scalar(value)
        return True

    def _begin(self, match: re.Match[str], column: int, raw: RawLine) -> None:
        key, value = match["key"], match["value"] or ""
        if (key in _RULE_KEYS and match["dash"]) or (key == "alert" and value):
            self._block = _Block("rule", column, raw, key=key)
        elif key == "job_name":
            self._block = _Block("job", column, raw, key=key)
        elif key == "name" and match["dash"] and _ENV.fullmatch(_scalar(value)):
            self._block = _Block("env", column, raw, key=key)
        else:
            return
        self._block.fields[key] = "" if re.fullmatch(r"[|>][+-]?\d?", value.strip()) else _scalar(value)

    def _learn(self, match: re.Match[str], column: int) -> None:
        """Keep what holds for all jobs, and which object this is."""
        key, value = match["key"], _scalar(match["value"] or "")
        if key == "global":
            self._in_global = column
        elif column <= self._in_global:
            self._in_global = -1
        if key in {"scrape_interval", "evaluation_interval"} and self._in_global >= 0:
            self._global[key] = value
        if key == "kind" and column == 0:
            self._kind, self._object = value, ""
        elif key == "name" and self._kind and not self._object:
            self._object = value

    def _part_of_operator(self, match: re.Match[str], column: int, raw: RawLine) -> Iterator[TextLine]:
        """Yield a part of the GPU Operator that values switch off."""
        part, key, value = self._part, match["key"], _scalar(match["value"] or "")
        if column <= part.column:
            part = self._part = _Part()
        if part.name and part.child < 0:
            part.child = column
        if part.name and column == part.child and key == "enabled" and value.lower() == "false":
            yield TextLine(text=f"values {part.name}.enabled=false", line=raw.number, offset=raw.offset)
        if key in OPERATOR_PARTS and not value:
            self._part = _Part(key, column)
        elif part.name == "dcgmExporter" and key == "serviceMonitor" and column == part.child and not value:
            self._part = _Part("dcgmExporter.serviceMonitor", column)

    def _fact(self, block: _Block) -> str:
        fields = block.fields
        if block.kind == "rule":
            if "alert" not in fields:
                return ""
            return (
                f"alert {fields['alert'].replace(' ', '-') or '-'} for={_shown(fields.get('for', ''), '0')} "
                f"severity={fields.get('severity', '')} expr={' '.join(fields.get('expr', '').split())}"
            )
        if block.kind == "job":
            own = _shown(fields.get("scrape_interval", ""), "")
            interval = own or _shown(self._global.get("scrape_interval", ""), "unknown")
            return f"scrape {fields['job_name'].replace(' ', '-')} interval={interval} own={'true' if own else 'false'}"
        return f"env -/-/- {fields['name']}={fields['value']}" if "value" in fields else ""

    def monitor(self, match: re.Match[str]) -> str:
        """Return the fact of an endpoint of a ServiceMonitor or PodMonitor."""
        return f"monitor {self._kind}/{self._object or '-'} interval={_shown(match['value'] or '', 'unknown')}"

    @property
    def in_monitor(self) -> bool:
        """Whether the object at hand is a ServiceMonitor or PodMonitor."""
        return self._kind in {"ServiceMonitor", "PodMonitor"}


def monitoring_facts(lines: Iterable[RawLine]) -> Iterator[TextLine]:
    """Yield the facts of lines of configuration, and the lines that are not part of a rule."""
    walker = _Walker()
    for raw in lines:
        yield from walker.line(raw)
        match = _KEY.match(raw.data.decode("utf-8", "replace").rstrip())
        if match is not None and match["key"] == "interval" and walker.in_monitor:
            yield TextLine(text=walker.monitor(match), line=raw.number, offset=raw.offset)
    yield from walker.finish()


class MonitoringReader:
    """Alert rules, scrape configuration and monitors, whole or in part."""

    kind = "monitoring"

    def detect(self, head: bytes) -> bool:
        """Say whether the head holds rules or jobs, and no Kubernetes object of another kind."""
        window = head if len(head) < HEAD_IS_ALL else head[:BEGINNING]
        return _HEAD.search(window) is not None and _OTHER_KIND.search(window) is None

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield lines and facts."""
        del source_name, joint
        yield from monitoring_facts(iter_lines(stream))


MONITORING = MonitoringReader()
