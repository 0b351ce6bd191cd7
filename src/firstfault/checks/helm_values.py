"""Helm values files: which chart they are for, and what may be read from them without the chart's templates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from firstfault.checks.located import LocatedDict, line_of
from firstfault.checks.prometheus import Document

__all__ = ["KNOWN_CHARTS", "chart_of", "dependencies", "is_values_file", "render_hint", "section"]

# Charts whose values some check reads; a file is told by its name or its folder's, else by keys that no other has.
KNOWN_CHARTS = (
    "kube-prometheus-stack", "kube-state-metrics", "gpu-operator", "dcgm-exporter", "nvidia-device-plugin",
    "node-feature-discovery", "gpu-feature-discovery", "aws-load-balancer-controller", "cert-manager", "karpenter",
    "prometheus-adapter", "metrics-server", "vllm-stack", "vllm",
)  # fmt: skip
_BY_KEYS: tuple[tuple[str, frozenset[str]], ...] = (
    ("vllm-stack", frozenset({"servingEngineSpec"})),
    ("gpu-operator", frozenset({"toolkit", "devicePlugin", "driver"})),
    ("kube-prometheus-stack", frozenset({"prometheusOperator", "prometheus", "alertmanager"})),
)
_NAME = re.compile(r"(?:.*[-_.])?values(?:[-_.].*)?\.ya?ml", re.IGNORECASE)


def is_values_file(document: Document) -> bool:
    """Tell whether a document is a file of Helm values, by its name (values.yaml, values-prod.yaml, x-values.yaml)."""
    return bool(_NAME.fullmatch(PurePosixPath(document.path).name)) and "apiVersion" not in document.body


def chart_of(document: Document, charts: dict[str, Document]) -> str:
    """Return the chart that a values file is for; "" when nothing says so.

    Args:
        document: The values file.
        charts: Chart.yaml documents by their folder.
    """
    path = PurePosixPath(document.path)
    if chart := charts.get(path.parent.as_posix()):
        return str(chart.body.get("name", ""))
    words = (path.stem.lower(), path.parent.name.lower())
    for word in words:
        for name in sorted(KNOWN_CHARTS, key=len, reverse=True):
            if re.search(rf"(?:^|[^a-z0-9]){re.escape(name)}(?:[^a-z0-9]|$)", word):
                return name
    return next((name for name, keys in _BY_KEYS if keys <= set(document.body)), "")


def dependencies(chart: Document) -> Iterator[tuple[str, str]]:
    """Yield (chart, key of its values) for each chart that an umbrella chart depends on."""
    listed = chart.body.get("dependencies")
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield item["name"], str(item.get("alias") or item["name"])


def render_hint(path: str) -> str:
    """Say how the manifests behind a values file are audited."""
    return f"audit what comes out: helm template RELEASE CHART -f {path} | firstfault audit -"


def section(document: Document, key: str) -> tuple[Any, int]:
    """Return the values of a dependency and their line; an empty mapping where the file sets none."""
    found = document.body.get(key)
    return (found, line_of(document.body, key)) if isinstance(found, dict) else (LocatedDict(), 1)
