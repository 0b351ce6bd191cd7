"""Matches the topology's rules with the real ones in EC2; keeps each real rule as the permission that restores it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.collect.reachability import SecurityGroupRule, parse_security_group

if TYPE_CHECKING:
    from firstfault.model.securitygroups import GroupRule

__all__ = ["is_rule", "rules_with_permissions"]

# Lists of peers in a permission, and what of a peer `authorize` needs to make the same rule again.
_PEERS = {
    "IpRanges": ("CidrIp", "Description"),
    "Ipv6Ranges": ("CidrIpv6", "Description"),
    "UserIdGroupPairs": ("GroupId", "UserId", "Description"),
    "PrefixListIds": ("PrefixListId", "Description"),
}
_SIDES = {"ingress": "IpPermissions", "egress": "IpPermissionsEgress"}


def rules_with_permissions(data: dict[str, Any], direction: str) -> list[tuple[SecurityGroupRule, dict[str, Any]]]:
    """Return each rule of a described group with the permission, description included, that authorizes just it."""
    found = []
    for permission in data.get(_SIDES[direction], []):
        base = {key: permission[key] for key in ("IpProtocol", "FromPort", "ToPort") if key in permission}
        for kind, keys in _PEERS.items():
            for peer in permission.get(kind, []):
                single = {**base, kind: [{key: peer[key] for key in keys if peer.get(key)}]}
                parsed = parse_security_group({"GroupId": "", "IpPermissions": [single]})
                found.append((parsed.ingress[0], single))
    return found


def is_rule(real: SecurityGroupRule, wanted: GroupRule, group_id: str, control_plane: str | None) -> bool:
    """Whether a real rule is the one that the topology means.

    Args:
        real: A rule as EC2 has it.
        wanted: A rule of the topology; its peer is a CIDR, "self", or "cluster" for the control plane's group. A
            private CIDR stands for whatever private range the real VPC has.
        group_id: The group that it stands in, for "self".
        control_plane: Id of the control plane's group.
    """
    protocol = "-1" if wanted.protocol == "all" else wanted.protocol
    if real.protocol != protocol or real.ports != wanted.ports:
        return False
    if wanted.peer == "self":
        return real.group == group_id
    if "/" in wanted.peer:
        return real.cidr is not None and (real.cidr == wanted.peer or "0.0.0.0/0" not in (real.cidr, wanted.peer))
    return real.group is not None and real.group == control_plane
