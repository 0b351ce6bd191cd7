"""Matches the topology's rules with the real ones in EC2, and writes a real rule as the permission that restores it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from firstfault.collect.reachability import SecurityGroupRule
    from firstfault.model.securitygroups import GroupRule

__all__ = ["is_rule", "permission_of"]


def is_rule(real: SecurityGroupRule, wanted: GroupRule, group_id: str, control_plane: str | None) -> bool:
    """Whether a real rule is the one that the topology means.

    Args:
        real: A rule as EC2 has it.
        wanted: A rule of the topology; its peer is a CIDR, "self", or "cluster" for the control plane's group.
        group_id: The group that it stands in, for "self".
        control_plane: Id of the control plane's group.
    """
    protocol = "-1" if wanted.protocol == "all" else wanted.protocol
    if real.protocol != protocol or real.ports != wanted.ports:
        return False
    if wanted.peer == "self":
        return real.group == group_id
    if "/" in wanted.peer:
        # The whole VPC is another CIDR in every account: any private range will do, but only one.
        return real.cidr == wanted.peer or (real.cidr is not None and "0.0.0.0/0" not in (real.cidr, wanted.peer))
    return real.group is not None and real.group == control_plane


def permission_of(rule: SecurityGroupRule) -> dict[str, Any]:
    """Return the rule as an element of `IpPermissions`, as authorize and revoke take it."""
    permission: dict[str, Any] = {"IpProtocol": rule.protocol}
    if rule.ports is not None:
        permission |= {"FromPort": rule.ports[0], "ToPort": rule.ports[1]}
    if rule.group:
        permission["UserIdGroupPairs"] = [{"GroupId": rule.group}]
    elif rule.prefix_list:
        permission["PrefixListIds"] = [{"PrefixListId": rule.prefix_list}]
    elif rule.cidr and ":" in rule.cidr:
        permission["Ipv6Ranges"] = [{"CidrIpv6": rule.cidr}]
    else:
        permission["IpRanges"] = [{"CidrIp": rule.cidr}]
    return permission
