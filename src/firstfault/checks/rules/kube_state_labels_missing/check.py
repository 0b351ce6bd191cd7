"""Labels that rules join with must be in the allowlist of kube-state-metrics."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from firstfault.checks.helm import helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Place, Unresolved, dig
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.promql import gpu_alerts, series_of

_NODES = re.compile(r"(?:^|,|=)\s*nodes=\[([^\]]*)\]")
_FLAG = "--metric-labels-allowlist"


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every kube-state-metrics of the inputs, when rules join with labels of nodes."""
    wanted = {
        label
        for alert in gpu_alerts(inventory)
        for item in series_of(inventory, alert) or ()
        if item.metric == "kube_node_labels"
        for label, _, _ in item.labels
        if label.startswith("label_")
    }
    if not wanted:
        return
    for subject, place, value in _allowlists(inventory):
        if isinstance(value, Unresolved):
            yield unresolved(place, subject, "the allowlist", value)
            continue
        exported = {name for found in _NODES.findall(value) for name in re.split(r"\s*,\s*", found.strip())}
        missing = sorted(wanted - {_metric_label(name) for name in exported}) if "*" not in exported else []
        if missing:
            message = f"rules join with {', '.join(missing)}, the allowlist is {value or 'empty'!r}"
            yield failed(place, subject, message)
        else:
            yield passed(place, subject)


def _metric_label(name: str) -> str:
    return "label_" + re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _allowlists(inventory: Inventory) -> Iterator[tuple[str, Place, str | Unresolved]]:
    """Yield (subject, place, allowlist as the flag writes it)."""
    for pod in inventory.pods:
        for container in pod.containers:
            if "kube-state-metrics" in container.image and "resizer" not in container.image:
                words = container.words
                found = [word.partition("=")[2] for word in words if word.startswith(f"{_FLAG}=")]
                found += [words[index + 1] for index, word in enumerate(words[:-1]) if word == _FLAG]
                yield container.subject, container.place("args"), ",".join(found)
    for release in helm_releases(inventory, "kube-prometheus-stack", "kube-state-metrics"):
        prefix = "" if release.chart == "kube-state-metrics" else "kube-state-metrics."
        values = [release.value(f"{prefix}{name}", []) for name in ("metricLabelsAllowlist", "extraArgs")]
        missing = next((value for value in values if isinstance(value, Unresolved)), None)
        yield release.subject, release.place, missing or _text(values)
    for document in inventory.documents:
        section = dig(document.body, "kube-state-metrics")
        if isinstance(section, dict) or "metricLabelsAllowlist" in document.body:
            inside = section if isinstance(section, dict) else document.body
            steps = ("kube-state-metrics",) if isinstance(section, dict) else ()
            values = [inside.get("metricLabelsAllowlist"), inside.get("extraArgs")]
            yield "kube-state-metrics", document.place(*steps, "metricLabelsAllowlist"), _text(values)


def _text(values: list[Any]) -> str:
    words = [str(word) for value in values if isinstance(value, list) for word in value]
    return ",".join(word.removeprefix(f"{_FLAG}=") for word in words if "nodes=" in word or "=[" in word)
