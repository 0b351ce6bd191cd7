"""What Prometheus objects of the operator take in: rules and monitors by their labels and namespaces."""

from __future__ import annotations

from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.labels import selects
from firstfault.checks.located import ABSENT

__all__ = ["selected_by"]


def selected_by(inventory: Inventory, item: KubeObject, prefix: str) -> str:
    """Return why no Prometheus of the inputs selects an object; empty when one does.

    Args:
        prefix: "rule", "serviceMonitor" or "podMonitor": `ruleSelector` and `ruleNamespaceSelector`, and so on.
    """
    reasons = []
    for prometheus in inventory.objects("Prometheus", "monitoring.coreos.com"):
        reason = _why_not(inventory, prometheus, item, prefix)
        if not reason:
            return ""
        reasons.append(f"{prometheus.subject}: {reason}")
    return "; ".join(reasons)


def _why_not(inventory: Inventory, prometheus: KubeObject, item: KubeObject, prefix: str) -> str:
    selector = prometheus.get("spec", f"{prefix}Selector")
    if selector is ABSENT or selector is None:
        return f"{prefix}Selector is not set, so nothing is selected"
    if not selects(selector, item.labels):
        return f"{prefix}Selector {_words(selector)} does not select the labels {dict(item.labels) or 'none'}"
    spaces = prometheus.get("spec", f"{prefix}NamespaceSelector")
    if spaces is ABSENT or spaces is None:
        same = item.namespace == prometheus.namespace
        return "" if same else f"{prefix}NamespaceSelector is not set, so only its own namespace counts"
    labels = {"kubernetes.io/metadata.name": item.namespace}
    for namespace in inventory.objects("Namespace", ""):
        if namespace.name == item.namespace:
            labels.update(namespace.labels)
    return (
        "" if selects(spaces, labels) else f"{prefix}NamespaceSelector {_words(spaces)} leaves out {item.namespace!r}"
    )


def _words(selector: Any) -> str:
    return str(dict(selector)) if isinstance(selector, dict) else str(selector)
