"""The GitOps objects that hold the GPU operator must revert edits."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.gitops import gitops_of_gpu_operator
from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.outcome import Outcome, failed, passed


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge each GitOps object that installs the operator or its ClusterPolicy."""
    for item in gitops_of_gpu_operator(inventory):
        steps, message = _why(item)
        place = item.place(*steps)
        yield failed(place, item.subject, message) if message else passed(place, item.subject)


def _why(item: KubeObject) -> tuple[tuple[str, ...], str]:
    if item.kind == "Application":
        return _argo(item)
    if item.get("spec", "suspend") is True:
        return ("spec", "suspend"), "is suspended: nothing is put back"
    if item.kind == "HelmRelease":
        mode = item.get("spec", "driftDetection", "mode")
        if mode != "enabled":
            how = f"is {mode!r}" if isinstance(mode, str) else "is not set"
            return ("spec", "driftDetection"), f"driftDetection.mode {how}: edits in the cluster stay"
    return ("spec",), ""


def _argo(item: KubeObject) -> tuple[tuple[str, ...], str]:
    automated = item.get("spec", "syncPolicy", "automated")
    if not isinstance(automated, dict):
        return ("spec", "syncPolicy"), "syncs by hand only (no syncPolicy.automated)"
    if automated.get("enabled") is False:
        return ("spec", "syncPolicy", "automated"), "syncPolicy.automated.enabled is false"
    if automated.get("selfHeal") is not True:
        return ("spec", "syncPolicy", "automated"), "selfHeal is not true: edits in the cluster stay"
    ignored = item.get("spec", "ignoreDifferences")
    for entry in ignored if isinstance(ignored, list) else []:
        if isinstance(entry, dict) and entry.get("kind") in {"ClusterPolicy", "*"} and _covers_spec(entry):
            return ("spec", "ignoreDifferences"), "ignoreDifferences leaves the spec of the ClusterPolicy out"
    return ("spec", "syncPolicy", "automated"), ""


def _covers_spec(entry: dict[str, object]) -> bool:
    pointers = entry.get("jsonPointers")
    paths = entry.get("jqPathExpressions")
    texts = [str(path) for listed in (pointers, paths) if isinstance(listed, list) for path in listed]
    return any(path.strip("/.") == "spec" or "devicePlugin" in path for path in texts) or bool(
        entry.get("managedFieldsManagers")
    )
