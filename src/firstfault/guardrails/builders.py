"""Files which no template can write, because they depend on several options at once.

A builder takes its guardrail and the options and returns (path, component, text) for each file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import yaml

from firstfault.guardrails.admission import admission
from firstfault.guardrails.context import context
from firstfault.guardrails.options import Options
from firstfault.guardrails.registry import LIBRARY_DIR, fill
from firstfault.guardrails.spec import Guardrail
from firstfault.guardrails.yamltext import dump

__all__ = ["BUILDERS", "Builder"]

Builder = Callable[[Guardrail, Options], list[tuple[str, str, str]]]


def gitops(guardrail: Guardrail, options: Options) -> list[tuple[str, str, str]]:
    """Write the object that owns the ClusterPolicy: a component where the repository is known, else a sketch."""
    name = "argocd" if "argocd" in options.features else "flux"
    source = LIBRARY_DIR / guardrail.id / f"{name}.yaml"
    text = fill(source.read_text(encoding="utf-8"), context(options), str(source))
    if options.git_repo:
        return [(f"components/gitops/{name}.yaml", "gitops", text)]
    note = "# No repository was given (--git-repo), so this is not among the components.\n"
    return [(f"gitops/{name}.yaml", "", note + text)]


def dashboard(guardrail: Guardrail, options: Options) -> list[tuple[str, str, str]]:
    """Write the Grafana dashboard, and the ConfigMap by which Grafana's sidecar finds it."""
    source = LIBRARY_DIR / guardrail.id / "panels.yaml"
    text = fill(source.read_text(encoding="utf-8"), context(options), str(source))
    panels = yaml.load(text, Loader=yaml.CSafeLoader)
    page = json.dumps(_dashboard(guardrail, panels), indent=2) + "\n"
    files = [("grafana/firstfault.json", "", page)]
    if "prometheus-operator" in options.features:
        labels = {"grafana_dashboard": "1", "app.kubernetes.io/part-of": "firstfault"}
        metadata = {"name": "firstfault-dashboard", "namespace": options.namespace, "labels": labels}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"firstfault.json": page}}
        files.append(("components/dashboard/firstfault.yaml", "dashboard", dump(config)))
    return files


def _dashboard(guardrail: Guardrail, panels: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "uid": "firstfault",
        "title": "firstfault",
        "description": f"{guardrail.title}. Serves {', '.join(guardrail.serves)}.",
        "tags": ["firstfault", "gpu"],
        "timezone": "utc",
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": [_panel(index, panel) for index, panel in enumerate(panels)],
    }


def _panel(index: int, panel: dict[str, Any]) -> dict[str, Any]:
    table = panel.get("kind") == "table"
    return {
        "id": index + 1,
        "title": panel["title"],
        "type": "table" if table else "timeseries",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"h": 8, "w": 12, "x": 12 * (index % 2), "y": 8 * (index // 2)},
        "fieldConfig": {"defaults": {"unit": panel.get("unit", "short"), "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + position), "expr": query, "legendFormat": legend, "instant": table}
            for position, (legend, query) in enumerate(panel["queries"].items())
        ],
    }


BUILDERS: dict[str, Builder] = {"admission": admission, "dashboard": dashboard, "gitops": gitops}
