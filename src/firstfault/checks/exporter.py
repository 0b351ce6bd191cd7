"""dcgm-exporter as checks see it: how it is installed, and how often it asks DCGM."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from firstfault.checks.gpu_operator import GpuOperator, gpu_operators
from firstfault.checks.helm import helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Place, Unresolved, dig

__all__ = ["DEFAULT_S", "Exporter", "collect_interval", "exporters"]

DEFAULT_S = 30.0
_VARIABLE = "DCGM_EXPORTER_INTERVAL"
_OPTION = re.compile(r"(?:^|\s)(?:-c|--collect-interval)[= ](\d+)(?:\s|$)")


class Exporter(msgspec.Struct, frozen=True, eq=False):
    """One installation.

    Attributes:
        subject: For findings.
        place: Line of the setting, or of the installation.
        interval_s: Seconds between two collections; the default where nothing is set; `Unresolved` where not known.
    """

    subject: str
    place: Place
    interval_s: float | Unresolved


def exporters(inventory: Inventory) -> list[Exporter]:
    """Return the exporters of the inputs: DaemonSets, charts, the GPU operator, files of chart values."""
    found: list[Exporter] = inventory.memo("dcgm_exporters", lambda: list(_exporters(inventory)))
    return found


def collect_interval(inventory: Inventory) -> float | None:
    """Return the longest interval of the exporters in seconds, or None when none is known."""
    known = [item.interval_s for item in exporters(inventory) if not isinstance(item.interval_s, Unresolved)]
    return max(known) if known else None


def _exporters(inventory: Inventory) -> Iterator[Exporter]:
    for pod in inventory.pods:
        for container in pod.containers:
            if "dcgm-exporter" in container.image.rpartition("/")[2]:
                interval = _interval(container.body.get("env"), container.words)
                yield Exporter(container.subject, container.place("env"), interval)
    for release in helm_releases(inventory, "dcgm-exporter"):
        values = [release.value(name, []) for name in ("extraEnv", "arguments")]
        yield Exporter(release.subject, release.place, _of_values(values))
    for operator in gpu_operators(inventory):
        if operator.enabled("dcgmExporter") is True:
            yield _of_operator(operator)
    for document in inventory.documents:
        for steps in ((), ("dcgmExporter",), ("dcgm-exporter",)):
            section = dig(document.body, *steps)
            listed = section.get("extraEnv", section.get("env")) if isinstance(section, dict) else None
            if isinstance(listed, list) and _VARIABLE in str(listed):
                place = document.place(*steps, "extraEnv" if "extraEnv" in section else "env")
                yield Exporter("dcgm-exporter values", place, _interval(listed, []))


def _of_operator(operator: GpuOperator) -> Exporter:
    values = [operator.value("dcgmExporter", name) for name in ("env", "args")]
    place = operator.place("dcgmExporter")
    return Exporter(operator.subject, place, _of_values([value or [] for value in values]))


def _of_values(values: list[Any]) -> float | Unresolved:
    missing = next((value for value in values if isinstance(value, Unresolved)), None)
    return missing or _interval(values[0], values[1] if isinstance(values[1], list) else [])


def _interval(env: Any, words: list[Any]) -> float | Unresolved:
    option = _OPTION.search(" ".join(str(word) for word in words))
    if option:
        return int(option[1]) / 1000
    value = None
    for entry in env if isinstance(env, list) else []:
        if isinstance(entry, dict) and entry.get("name") == _VARIABLE:
            value = entry.get("value", "")
    if value is None:
        return DEFAULT_S
    return int(str(value)) / 1000 if str(value).isdigit() else Unresolved(f"{_VARIABLE} is {value!r}")
