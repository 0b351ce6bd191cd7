"""Helm releases wherever they are declared: Terraform, Argo CD, Flux; with the values that can be known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from firstfault.checks.helm_values import KNOWN_CHARTS, chart_of, dependencies, is_values_file, section
from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.load.yaml_documents import read_yaml
from firstfault.checks.located import ABSENT, LocatedDict, Place, Unresolved, dig
from firstfault.checks.terraform.model import TerraformBlock

__all__ = ["HelmRelease", "helm_releases"]


class HelmRelease(msgspec.Struct, frozen=True, eq=False):
    """One release of a chart.

    Attributes:
        chart: Chart's name, without repository.
        name: Release name.
        values: Values, later sources over earlier ones; what the chart has by default is not in it.
        subject: For findings.
        place: Where it is declared.
        unknown: Why some values cannot be known; empty when all are.
        located: The values bear the lines of the file at `place`.
    """

    chart: str
    name: str
    values: dict[str, Any]
    subject: str
    place: Place
    unknown: str = ""
    located: bool = False

    def value(self, path: str, default: Any = ABSENT) -> Any:
        """Return the value at a dotted path; `default` (the chart's own) where the release does not set it."""
        found = dig(self.values, *path.split("."))
        if found is ABSENT and self.unknown:
            return Unresolved(self.unknown)
        return default if found is ABSENT else found


def helm_releases(inventory: Inventory, *charts: str) -> list[HelmRelease]:
    """Return the releases, of the given charts where any is named."""
    found: list[HelmRelease] = inventory.memo("helm_releases", lambda: list(_releases(inventory)))
    return [release for release in found if not charts or release.chart in charts]


def _releases(inventory: Inventory) -> Iterator[HelmRelease]:
    declared = list(_declared(inventory))
    yield from declared
    # A release that is declared somewhere says itself which values it has: the file is one of its sources, not another.
    known = {release.chart for release in declared}
    yield from (release for release in _from_values(inventory) if release.chart not in known)


def _from_values(inventory: Inventory) -> Iterator[HelmRelease]:
    """Read values files: of a chart that the file names, and of what the chart in whose folder it lies depends on."""
    charts = {
        document.path.rpartition("/")[0] or ".": document
        for document in inventory.documents
        if document.path.rpartition("/")[2] == "Chart.yaml"
    }
    for document in filter(is_values_file, inventory.documents):
        path = document.path
        chart = chart_of(document, charts)
        if chart in KNOWN_CHARTS:
            values = dict(document.body)
            yield HelmRelease(chart, chart, values, f"values of {chart}", Place(path, 1, 1), located=True)
        umbrella = charts.get(path.rpartition("/")[0] or ".")
        for name, key in dependencies(umbrella) if umbrella else ():
            part, line = section(document, key)
            yield HelmRelease(name, key, dict(part), f"values of {name}", Place(path, line, line), located=True)


def _declared(inventory: Inventory) -> Iterator[HelmRelease]:
    for block in inventory.resources("helm_release"):
        yield _from_terraform(block)
    for item in inventory.objects("Application", "argoproj.io"):
        yield from _from_argo(item)
    for item in inventory.objects("HelmRelease", "helm.toolkit.fluxcd.io"):
        chart = item.get("spec", "chart", "spec", "chart")
        if isinstance(chart, str):
            values: dict[str, Any] = {}
            _merge(values, item.get("spec", "values"))
            unknown = "" if item.get("spec", "valuesFrom") is ABSENT else "some values come from valuesFrom"
            yield HelmRelease(_chart(chart), item.name, values, item.subject, item.place("spec", "chart"), unknown)


def _chart(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2]


def _from_terraform(block: TerraformBlock) -> HelmRelease:
    values: dict[str, Any] = {}
    unknown = ""
    documents = block.get("values")
    for document in documents if isinstance(documents, list) else [documents]:
        if isinstance(document, Unresolved):
            # A text that is known in part is read in part; the gaps are values like `${var.x}`.
            if document.text:
                _merge(values, _gaps(_parse(document.text), document.reason))
            else:
                unknown = document.reason
        elif isinstance(document, str):
            _merge(values, _parse(document))
    for key in ("set", "set_sensitive"):
        settings = block.get(key)
        for item in settings if isinstance(settings, list) else []:
            if isinstance(item, dict) and isinstance(item.get("name"), str):
                _set(values, item["name"], item.get("value"))
    chart = block.get("chart")
    return HelmRelease(
        _chart(chart) if isinstance(chart, str) else "", block.name, values, block.address, block.place(), unknown
    )


def _from_argo(item: KubeObject) -> Iterator[HelmRelease]:
    sources = item.get("spec", "sources")
    several = isinstance(sources, list)
    for index, source in enumerate(sources if several else [item.get("spec", "source")]):
        if not isinstance(source, dict) or not isinstance(source.get("chart"), str):
            continue
        values: dict[str, Any] = {}
        text = dig(source, "helm", "values")
        if isinstance(text, str):
            _merge(values, _parse(text))
        _merge(values, dig(source, "helm", "valuesObject"))
        parameters = dig(source, "helm", "parameters")
        for parameter in parameters if isinstance(parameters, list) else []:
            if isinstance(parameter, dict):
                _set(values, str(parameter.get("name", "")), parameter.get("value"))
        unknown = "" if dig(source, "helm", "valueFiles") is ABSENT else "some values come from valueFiles"
        steps = ("spec", "sources", index) if several else ("spec", "source")
        yield HelmRelease(_chart(source["chart"]), item.name, values, item.subject, item.place(*steps), unknown)


def _parse(text: str) -> Any:
    documents = read_yaml(text, "values").documents
    return documents[0] if documents else {}


def _gaps(value: Any, reason: str) -> Any:
    """Turn texts with gaps into unresolved values."""
    if isinstance(value, dict):
        result = LocatedDict()
        result.update({key: _gaps(item, reason) for key, item in value.items()})
        return result
    if isinstance(value, list):
        return [_gaps(item, reason) for item in value]
    return Unresolved(reason, text=value) if isinstance(value, str) and "${" in value else value


def _merge(values: dict[str, Any], other: Any) -> None:
    for key, value in other.items() if isinstance(other, dict) else ():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        elif isinstance(value, dict):
            values[key] = {}
            _merge(values[key], value)
        else:
            values[key] = value


def _set(values: dict[str, Any], path: str, value: Any) -> None:
    """Apply one `--set`: a dotted path, and a value with YAML's types."""
    steps = path.replace("\\.", "\0").split(".")
    steps = [step.replace("\0", ".") for step in steps]
    for step in steps[:-1]:
        inner = values.get(step)
        if not isinstance(inner, dict):
            inner = values[step] = {}
        values = inner
    if isinstance(value, str) and len(value) < 100:
        loaded = yaml.load(value, Loader=yaml.CSafeLoader) if value in {"true", "false", "null"} else value
        value = loaded
    values[steps[-1]] = value
