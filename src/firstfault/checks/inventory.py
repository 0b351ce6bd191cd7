"""Everything that an audit was given, loaded and typed: what check functions get."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from firstfault.checks.kube import KubeObject, PodView, pods_of
from firstfault.checks.prometheus import AlertRule, Document
from firstfault.checks.terraform.model import TerraformBlock, TerraformConfig
from firstfault.model.audit import ReadProblem

__all__ = ["Inventory"]


class Inventory:
    """All inputs of one audit.

    Attributes:
        kube: Kubernetes objects of all kinds, members of Lists included.
        alerts: Alerting rules of rule files and PrometheusRule objects.
        prometheus_configs: prometheus.yml-like documents.
        alertmanager_configs: alertmanager.yml-like documents.
        terraform: Roots (once for each set of tfvars) and plans.
        iam: JSON documents of IAM policies.
        documents: Other YAML and JSON documents: CI pipelines, Helm values, model configs, quota snapshots.
        texts: Text of each file that was read, by path (code frames, comments, searches beyond structure).
        problems: What could not be read.
        notes: What was left out on purpose, in words ("Helm chart sources: render them").
        complete: True when the caller says that the inputs are everything there is, so that a thing that is absent
            from them is missing and not merely elsewhere.
    """

    def __init__(self) -> None:
        self.kube: list[KubeObject] = []
        self.alerts: list[AlertRule] = []
        self.prometheus_configs: list[Document] = []
        self.alertmanager_configs: list[Document] = []
        self.terraform: list[TerraformConfig] = []
        self.iam: list[Document] = []
        self.documents: list[Document] = []
        self.texts: dict[str, str] = {}
        self.problems: list[ReadProblem] = []
        self.notes: list[str] = []
        self.complete = False
        self._memo: dict[str, Any] = {}

    def objects(self, kind: str, group: str | None = None) -> list[KubeObject]:
        """Return the Kubernetes objects of a kind; of one API group where `group` is given ("" is the core group)."""
        return [item for item in self._by_kind.get(kind, ()) if group is None or item.group == group]

    @cached_property
    def _by_kind(self) -> dict[str, list[KubeObject]]:
        index: dict[str, list[KubeObject]] = {}
        for item in self.kube:
            index.setdefault(item.kind, []).append(item)
        return index

    @cached_property
    def pods(self) -> list[PodView]:
        """Every Pod and Pod template, of kinds unknown to us too."""
        return [pod for item in self.kube for pod in pods_of(item)]

    @cached_property
    def gpu_pods(self) -> list[PodView]:
        """The Pods that ask for a GPU."""
        return [pod for pod in self.pods if pod.gpus]

    def blocks(self, kind: str, *types: str) -> list[TerraformBlock]:
        """Return Terraform blocks of all roots and plans by kind ("resource", "module", …) and type."""
        return [block for config in self.terraform for block in config.find(kind, *types)]

    def resources(self, *types: str) -> list[TerraformBlock]:
        """Return Terraform resources of the given types."""
        return self.blocks("resource", *types)

    def memo(self, key: str, make: Callable[[], Any]) -> Any:
        """Return what `make` gave the first time: for views that several checks share."""
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]
