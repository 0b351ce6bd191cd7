"""Alerting rules wherever they stand: rule files, PrometheusRule objects, and the configuration that times them."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from firstfault.checks.located import LocatedDict, Place, place_of

__all__ = ["AlertRule", "Document", "parse_duration"]

_DURATION = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?")
# Prometheus counts nanoseconds in 64 bits and refuses what does not fit (292 years).
_LONGEST_S = 2**63 / 1e9
_UNITS = (31_536_000.0, 604_800.0, 86_400.0, 3_600.0, 60.0, 1.0, 0.001)


def parse_duration(text: Any) -> float | None:
    """Return the seconds of a Prometheus duration ("1m30s", "15s", "0"), or None when it is not one."""
    value = str(text).strip()
    if value == "0":
        return 0.0
    match = _DURATION.fullmatch(value)
    if not value or match is None or not any(match.groups()):
        return None
    seconds = sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS, strict=True) if part)
    return seconds if seconds < _LONGEST_S else None


class Document(msgspec.Struct, frozen=True, eq=False):
    """A YAML or JSON document that is no Kubernetes object.

    Attributes:
        body: Its value, with lines.
        path: File it was read from.
    """

    body: LocatedDict
    path: str

    def place(self, *steps: str | int) -> Place:
        """Return the line of the value at `steps`."""
        return place_of(self.path, self.body, *steps)


class AlertRule(msgspec.Struct, frozen=True, eq=False):
    """One alerting rule.

    Attributes:
        name: The alert's name.
        expr: Its PromQL.
        body: The rule's mapping.
        group: The group's mapping (for `interval`).
        path: File it was read from.
        where: Subject of the PrometheusRule object; empty for a rule file.
    """

    name: str
    expr: str
    body: LocatedDict
    group: LocatedDict
    path: str
    where: str = ""

    @property
    def hold_s(self) -> float | None:
        """`for` in seconds: 0 when absent, None when it is not a duration."""
        return parse_duration(self.body["for"]) if "for" in self.body else 0.0

    @property
    def interval_s(self) -> float | None:
        """Evaluation interval of the group in seconds, or None: the global one holds."""
        return parse_duration(self.group["interval"]) if "interval" in self.group else None

    @property
    def labels(self) -> dict[str, Any]:
        """Labels that the alert carries."""
        labels = self.body.get("labels")
        return labels if isinstance(labels, dict) else {}

    @property
    def subject(self) -> str:
        """`group/alert`, with the object in front where there is one."""
        return "/".join(part for part in (self.where, str(self.group.get("name", "")), self.name) if part)

    def place(self, *steps: str | int) -> Place:
        """Return the line of the value at `steps` below the rule."""
        return place_of(self.path, self.body, *steps)
