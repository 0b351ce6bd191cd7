"""Ports of the webhooks that are installed must be open from the cluster's security group to the nodes."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.helm import helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed, unknown
from firstfault.checks.terraform.security_groups import node_sets, open_ports

# Chart -> the port on which its webhook's Pod listens, by the chart's defaults.
_PORTS = {
    "aws-load-balancer-controller": 9443,
    "cert-manager": 10250,
    "gatekeeper": 8443,
    "ingress-nginx": 8443,
    "istiod": 15017,
    "keda": 9443,
    "kueue": 9443,
    "kyverno": 9443,
    "training-operator": 9443,
}


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every known webhook against every node security group of the EKS module."""
    releases = helm_releases(inventory, *_PORTS)
    for eks, group in node_sets(inventory):
        rules = [rule for rule in group.rules if rule.direction == "ingress" and _from_cluster(rule.peers)]
        for release in releases:
            port = _PORTS[release.chart]
            subject = f"{eks.block.address}#{release.chart}"
            if open_ports(rules, "tcp", ((port, port),)):
                yield passed(release.place, subject)
            elif group.unknown:
                yield unknown(release.place, subject, f"the rules of the node group are not known: {group.unknown}")
            else:
                yield failed(
                    release.place,
                    subject,
                    f"the webhook of {release.chart} listens on {port}, which {group.key} "
                    "does not open for the control plane",
                )


def _from_cluster(peers: tuple[str, ...]) -> bool:
    return any(peer == "cluster" or peer.startswith("cidr:") for peer in peers)
