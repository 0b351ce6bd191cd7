"""What must hold before a drill may touch a cluster: consent, blast radius, lifeline, and the means to restore.

Pure functions over what EC2 and Kubernetes answered; `world` asks, this decides. Each refusal says exactly what it is
about and what to do, and nothing has been changed then.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec

from firstfault.collect.reachability import Interface, SecurityGroup, SecurityGroupRule, reachable
from firstfault.errors import UsageError

__all__ = [
    "CONSENT_TAG",
    "Affected",
    "affected_by",
    "check_consent",
    "check_credentials",
    "check_foreign",
    "check_lifeline",
    "without_rules",
]

CONSENT_TAG = ("firstfault/drill", "allowed")

SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-node-lease", "gpu-operator", "nvidia-gpu-operator"})
"""Namespaces of the cluster's own components; their Pods are listed as affected, not as foreign."""

# Stands for the API server's public endpoint, registries and STS where they are not reached by VPC endpoints.
_ANYWHERE = "203.0.113.1"
_CREDENTIAL_MARGIN_S = 600


class Affected(msgspec.Struct, frozen=True, kw_only=True):
    """What a change of the groups reaches.

    Attributes:
        interfaces: Ids of the network interfaces that obey the groups.
        pods: `namespace/name` of the Pods on their nodes.
        foreign: Pods and interfaces that are neither the drill's nor the cluster's own.
    """

    interfaces: list[str]
    pods: list[str]
    foreign: list[str]


def check_consent(groups: list[dict[str, Any]]) -> None:
    """Refuse when a group does not bear the tag by which its owner allows drills.

    Raises:
        UsageError: A group lacks the tag.
    """
    key, value = CONSENT_TAG
    for group in groups:
        tags = {tag["Key"]: tag["Value"] for tag in group.get("Tags", [])}
        if tags.get(key) != value:
            raise UsageError(
                f"security group {group['GroupId']} ({group.get('GroupName', '')}) does not allow drills: "
                f"it has no tag {key}={value}",
                f"aws ec2 create-tags --resources {group['GroupId']} --tags Key={key},Value={value}"
                "   (only where a drill may cut what uses the group)",
            )


def affected_by(
    interfaces: list[dict[str, Any]],
    nodes: list[dict[str, Any]],
    pods: list[dict[str, Any]],
    *,
    run: str,
    accept: list[str],
    run_label: str,
) -> Affected:
    """Work out who would be cut.

    Args:
        interfaces: Every interface that obeys one of the groups.
        nodes: The cluster's nodes.
        pods: All Pods of the cluster.
        run: Id of this run; its own Pods are nobody's workload.
        accept: Namespaces that the caller accepts to be cut.
        run_label: Label that bears the run's id.
    """
    by_instance = {
        str((node.get("spec") or {}).get("providerID", "")).rpartition("/")[2]: node["metadata"]["name"]
        for node in nodes
    }
    foreign = []
    cut_nodes = set()
    for interface in interfaces:
        instance = (interface.get("Attachment") or {}).get("InstanceId", "")
        if instance in by_instance:
            cut_nodes.add(by_instance[instance])
        else:
            what = interface.get("Description") or interface.get("InterfaceType") or "no description"
            foreign.append(f"interface {interface['NetworkInterfaceId']} ({what}), not of a node of this cluster")
    cut_pods = []
    for pod in pods:
        meta, spec = pod["metadata"], pod.get("spec") or {}
        if spec.get("nodeName") not in cut_nodes or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        name = f"{meta.get('namespace', '')}/{meta['name']}"
        if (meta.get("labels") or {}).get(run_label) == run:
            continue
        cut_pods.append(name)
        owners = {owner.get("kind") for owner in meta.get("ownerReferences") or []}
        known = meta.get("namespace") in SYSTEM_NAMESPACES or "DaemonSet" in owners
        if not known and meta.get("namespace") not in accept:
            foreign.append(f"Pod {name} on {spec['nodeName']}")
    names = sorted(each["NetworkInterfaceId"] for each in interfaces)
    return Affected(interfaces=names, pods=sorted(cut_pods), foreign=sorted(foreign))


def check_foreign(affected: Affected) -> None:
    """Refuse when the change would cut somebody else's workload.

    Raises:
        UsageError: It would; the message lists all of it.
    """
    if affected.foreign:
        listed = "\n  - ".join(affected.foreign)
        raise UsageError(
            f"the change would also cut {len(affected.foreign)} that are not the drill's:\n  - {listed}",
            "move them away, or accept it for a namespace with --accept NAMESPACE; interfaces cannot be accepted",
        )


def without_rules(
    groups: list[SecurityGroup], gone: dict[str, list[tuple[str, SecurityGroupRule]]]
) -> list[SecurityGroup]:
    """Return the groups as they would be without the rules `gone` (group id -> (direction, rule))."""
    left = []
    for group in groups:
        lost = gone.get(group.id, [])
        left.append(
            msgspec.structs.replace(
                group,
                ingress=tuple(rule for rule in group.ingress if ("ingress", rule) not in lost),
                egress=tuple(rule for rule in group.egress if ("egress", rule) not in lost),
            )
        )
    return left


def check_lifeline(interfaces: list[dict[str, Any]], groups: list[SecurityGroup], control_plane: str | None) -> None:
    """Refuse when a node would lose what it lives by: API server, registry, STS, SSM, DNS, kubelet.

    The union of *all* groups of each interface counts, those that the drill does not touch too.

    Args:
        interfaces: Every interface that obeys one of the changed groups, as EC2 describes it.
        groups: All groups of these interfaces, as they would be during the fault.
        control_plane: Id of the cluster security group, from which the API server speaks to nodes; None if unknown.

    Raises:
        UsageError: Something of it would be lost; the message names the interface and the path.
    """
    by_id = {group.id: group for group in groups}
    everything = SecurityGroupRule(protocol="-1", ports=None, cidr="0.0.0.0/0")

    def end(data: dict[str, Any]) -> Interface:
        return Interface(
            address=data.get("PrivateIpAddress", "0.0.0.0"),  # noqa: S104 - an address to compare, nothing is bound
            eni=data["NetworkInterfaceId"],
            subnet=data.get("SubnetId", ""),
            groups=frozenset(each["GroupId"] for each in data.get("Groups", [])),
        )

    open_end = SecurityGroup(id="sg-open", name="", ingress=(everything,), egress=(everything,))
    by_id[open_end.id] = open_end
    ends = [end(data) for data in interfaces]
    for node in ends:
        outside = Interface(address=_ANYWHERE, eni="", subnet=node.subnet, groups=frozenset({open_end.id}))
        paths = [("egress 443 (API server, image registry, STS, SSM)", node, outside, 443, "tcp")]
        if control_plane:
            plane = Interface(
                address=_ANYWHERE, eni="", subnet=node.subnet, groups=frozenset({control_plane, open_end.id})
            )
            paths.append(("kubelet 10250 from the control plane", plane, node, 10250, "tcp"))
        for other in ends:
            if other is not node:
                paths += [(f"DNS 53/{proto} between nodes", node, other, 53, proto) for proto in ("tcp", "udp")]
        for name, source, target, port, protocol in paths:
            answer = reachable(source, target, port, groups=by_id, acls=[], protocol=protocol)
            if answer.state != "open":
                raise UsageError(
                    f"interface {node.eni} would lose its lifeline, {name}: {answer.why}",
                    "add a group that keeps it, as the auxiliary group's egress does; a node without it cannot be "
                    "watched or repaired while the fault is there",
                )


def check_credentials(expire: dt.datetime | None, max_duration_s: float, now: dt.datetime | None = None) -> None:
    """Refuse when the credentials lapse before the fault must be gone.

    Raises:
        UsageError: They do.
    """
    now = now or dt.datetime.now(dt.UTC)
    needed = now + dt.timedelta(seconds=max_duration_s + _CREDENTIAL_MARGIN_S)
    if expire is not None and expire < needed:
        raise UsageError(
            f"the AWS credentials lapse at {expire.isoformat()}, before the fault is sure to be taken back "
            f"({max_duration_s:g} s and a margin of {_CREDENTIAL_MARGIN_S} s from now)",
            "log in again for a longer session, or lower --max-duration",
        )
