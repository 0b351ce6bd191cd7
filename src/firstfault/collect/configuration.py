"""Reads what a live cluster and its account are configured to do, for the audit: specs, rules, policies, quotas.

Only `GET` and `List*`; no Secrets, no ConfigMaps. Objects that a controller owns are left out: their owner is judged.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from firstfault.collect.aws_files import refuse_aws_pipes
from firstfault.collect.cloud import ec2_place
from firstfault.collect.kube import KubeError, KubeReader
from firstfault.collect.permissions import read_only
from firstfault.errors import InputError
from firstfault.model import Missing

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KINDS", "Kind", "configuration_permissions", "gather_configuration"]


class Kind(msgspec.Struct, frozen=True):
    """One collection of objects.

    Attributes:
        group: API group, "" for core.
        version: Of the group.
        plural: Resource name.
        optional: A cluster that does not have the kind lacks nothing.
    """

    group: str
    version: str
    plural: str
    optional: bool = False

    @property
    def path(self) -> str:
        """Path of the collection over all namespaces."""
        return f"/{'apis/' + self.group if self.group else 'api'}/{self.version}/{self.plural}"


KINDS = (
    Kind("", "v1", "nodes"),
    Kind("", "v1", "pods"),
    Kind("", "v1", "services"),
    Kind("apps", "v1", "deployments"),
    Kind("apps", "v1", "statefulsets"),
    Kind("apps", "v1", "daemonsets"),
    Kind("batch", "v1", "jobs"),
    Kind("batch", "v1", "cronjobs"),
    Kind("networking.k8s.io", "v1", "networkpolicies"),
    Kind("rbac.authorization.k8s.io", "v1", "clusterroles"),
    Kind("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
    Kind("rbac.authorization.k8s.io", "v1", "roles"),
    Kind("rbac.authorization.k8s.io", "v1", "rolebindings"),
    Kind("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"),
    Kind("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"),
    Kind("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", optional=True),
    Kind("admissionregistration.k8s.io", "v1", "validatingadmissionpolicybindings", optional=True),
    Kind("kyverno.io", "v1", "clusterpolicies", optional=True),
    Kind("nvidia.com", "v1", "clusterpolicies", optional=True),
    Kind("monitoring.coreos.com", "v1", "prometheusrules", optional=True),
    Kind("monitoring.coreos.com", "v1", "prometheuses", optional=True),
    Kind("monitoring.coreos.com", "v1", "servicemonitors", optional=True),
    Kind("monitoring.coreos.com", "v1", "podmonitors", optional=True),
    Kind("karpenter.sh", "v1", "nodepools", optional=True),
    Kind("karpenter.k8s.aws", "v1", "ec2nodeclasses", optional=True),
    Kind("argoproj.io", "v1alpha1", "applications", optional=True),
    Kind("kustomize.toolkit.fluxcd.io", "v1", "kustomizations", optional=True),
    Kind("kubeflow.org", "v1", "pytorchjobs", optional=True),
    Kind("trainer.kubeflow.org", "v1alpha1", "trainjobs", optional=True),
    Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", optional=True),
    Kind("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", optional=True),
)


def gather_configuration(folder: Path, *, context: str | None = None, cloud: bool = True) -> list[Missing]:
    """Write the configuration of a cluster, and the account's EC2 quotas, into `folder`.

    Args:
        folder: Existing empty folder; one JSON file for each kind that has objects.
        context: kubeconfig context; None for the current one.
        cloud: Also ask Service Quotas, when the nodes are EC2 instances.

    Returns:
        What could not be read, with the command that would.

    Raises:
        InputError: No usable cluster configuration, no answer, or nothing that may be read.
        UnsupportedError: The extra `live` is not installed.
    """
    missing: list[Missing] = []
    region = None
    answered = written = False
    with KubeReader(context) as kube:
        for kind in KINDS:
            try:
                objects = list(kube.items(kind.path))
            except KubeError as error:
                # Nobody there, or nobody known: the next thirty calls would end the same way, each after its wait.
                if not answered and error.status in (0, 401):
                    raise
                if not (kind.optional and error.status == 404):
                    name = f"{kind.plural}.{kind.group}".rstrip(".")
                    command = f"kubectl get {name} -A -o json"
                    missing.append(Missing(what=name, why=error.what, command=command))
                continue
            answered = True
            if kind.plural == "nodes":
                region = next(filter(None, (region for region, _ in map(ec2_place, objects))), None)
            wanted = [_slim(each) for each in objects if not _owned(each)]
            if wanted:
                name = f"{kind.group or 'core'}-{kind.plural}.json"
                body = {"apiVersion": "v1", "kind": "List", "items": wanted}
                (folder / name).write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
                written = True
    if not written:
        why = f"; {len(missing)} kinds were not read, the first: {missing[0].why}" if missing else ""
        raise InputError(
            f"nothing to audit: the cluster shows none of the objects that the audit reads{why}",
            "`firstfault audit --permissions` prints the role that reads them; is it the right --context?",
        )
    if cloud and region:
        missing += _quotas(folder, region)
    return missing


def _owned(obj: dict[str, Any]) -> bool:
    return any(owner.get("controller") for owner in obj["metadata"].get("ownerReferences") or [])


def _slim(obj: dict[str, Any]) -> dict[str, Any]:
    """Take away what no person wrote and what may repeat secrets: managed fields, the last applied copy."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {k: v for k, v in annotations.items() if not k.endswith("last-applied-configuration")}
    return {**obj, "metadata": metadata}


def _quotas(folder: Path, region: str) -> list[Missing]:
    command = f"aws service-quotas list-service-quotas --service-code ec2 --region {region}"
    try:
        import boto3  # noqa: PLC0415 - heavy, and only needed for live evidence
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
    except ImportError as error:
        return [Missing(what="EC2 quotas", why=f"the extra `live` is not installed ({error})", command=command)]
    try:
        refuse_aws_pipes()
        config = Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 3, "mode": "standard"})
        client = boto3.client("service-quotas", region_name=region, config=config)
        quotas: list[dict[str, Any]] = []
        for page in client.get_paginator("list_service_quotas").paginate(ServiceCode="ec2"):
            quotas += page["Quotas"]
        client.close()
    except (BotoCoreError, ClientError, InputError) as error:
        why = error.what if isinstance(error, InputError) else str(error)
        return [Missing(what="EC2 quotas", why=why, command=command)]
    (folder / "quotas.json").write_text(json.dumps({"Quotas": quotas}, indent=1, default=str) + "\n", encoding="utf-8")
    return []


def configuration_permissions() -> dict[str, Any]:
    """Return the ClusterRole and the IAM policy that `gather_configuration` needs, and nothing more."""
    kinds = [(kind.group, kind.plural) for kind in KINDS]
    return read_only("firstfault-audit", kinds, ["servicequotas:ListServiceQuotas"])
