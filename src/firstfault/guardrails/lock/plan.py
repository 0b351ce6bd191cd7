"""Reads the security-group rules before and after a plan from `terraform show -json`.

A value that is known only after the apply makes its rule uncertain; an uncertain rule never counts as protection, and
never as a loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from firstfault.errors import InputError
from firstfault.guardrails.lock.configuration import inline_configured, plain_address
from firstfault.model.files import read_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Peer", "Plan", "SecurityGroupRule", "read_plan"]

Direction = Literal["ingress", "egress"]
MAX_BYTES = 256 * 1024 * 1024
ANY_PORT = (0, 65535)
_DIRECTIONS: tuple[Direction, ...] = ("ingress", "egress")
_INLINE = ("aws_security_group", "aws_default_security_group")
_NODES = ("aws_eks_node_group", "aws_launch_template", "aws_autoscaling_group", "aws_instance", "aws_eks_cluster")
_ATTACHING = ("vpc_security_group_ids", "security_groups", "security_group_ids")


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """The other side of a rule.

    Attributes:
        kind: self: the group itself · group: another group · cidr: an IPv4 or IPv6 network · other: a prefix list, or
            not known yet.
        value: Group id or network.
    """

    kind: Literal["self", "group", "cidr", "other"]
    value: str = ""


class SecurityGroupRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule, whichever resource type writes it.

    Attributes:
        address: Address of the resource in the plan.
        group: Id of the security group it belongs to; "" when not known yet.
        direction: ingress or egress.
        protocol: "tcp", "udp", "-1" for all, ...
        ports: First and last port.
        peers: The other sides.
        certain: Whether everything about it is known before the apply.
    """

    address: str
    group: str
    direction: Direction
    protocol: str
    ports: tuple[int, int]
    peers: tuple[Peer, ...]
    certain: bool = True

    def __str__(self) -> str:
        ports = "all ports" if self.ports == ANY_PORT else "-".join(map(str, sorted(set(self.ports))))
        protocol = "all traffic" if self.protocol == "-1" else f"{self.protocol} {ports}"
        peers = ", ".join("itself" if peer.kind == "self" else peer.value or "?" for peer in self.peers)
        return f"{self.direction} {protocol} {'from' if self.direction == 'ingress' else 'to'} {peers}"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a plan says about security groups.

    Attributes:
        before: Rules as they are.
        after: Rules as they will be.
        together: Sets of groups that some interface, launch template or node group carries together.
        vpc_cidrs: Networks of the VPCs that the plan knows.
        efa: Whether anything in the plan uses EFA.
        teardown: Whether the plan takes away every node and the cluster with them.
        complete: False when Terraform says that the plan has errors or defers changes, or when a change cannot be read.
    """

    before: list[SecurityGroupRule]
    after: list[SecurityGroupRule]
    together: list[frozenset[str]]
    vpc_cidrs: list[str]
    efa: bool = False
    teardown: bool = False
    complete: bool = True


def read_plan(path: Path) -> Plan:
    """Read a plan.

    Args:
        path: Output of `terraform show -json PLANFILE`, as a file, a pipe, or "-" for standard input.

    Raises:
        InputError: The file cannot be read or is no such output.
        LimitError: It is larger than 256 MiB.
    """
    try:
        data = msgspec.json.decode(read_whole(path, MAX_BYTES))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{path}: not JSON: {error}",
            "write it with `terraform show -json tfplan > plan.json`; the plan file itself cannot be read",
        ) from error
    if (
        not isinstance(data, dict)
        or not isinstance(data.get("resource_changes", []), list)
        or "planned_values" not in data
    ):
        raise InputError(
            f"{path}: JSON, but not a plan (it has no planned_values)",
            "write it with `terraform plan -out tfplan && terraform show -json tfplan > plan.json`",
        )
    return _plan(data)


def _plan(data: dict[str, Any]) -> Plan:
    listed = data.get("resource_changes", [])
    changes = [change for change in listed if _is_change(change)]
    configured = inline_configured(data)
    before = [rule for change in changes for rule in _rules_of(change, "before", configured)]
    after = [rule for change in changes for rule in _rules_of(change, "after", configured)]
    outside = _outside(changes, configured, before)
    return Plan(
        before=before + outside,
        after=after + outside,
        together=list(_attachments(changes)),
        vpc_cidrs=sorted(set(_vpc_cidrs(changes, data))),
        efa=any(_uses_efa(change) for change in changes),
        teardown=_is_teardown(changes),
        complete=not data.get("errored") and not data.get("deferred_changes") and len(changes) == len(listed),
    )


def _is_change(change: Any) -> bool:
    return (
        isinstance(change, dict)
        and isinstance(change.get("change"), dict)
        and isinstance(change.get("address"), str)
        and isinstance(change["change"].get("actions"), list)
    )


def _rules_of(
    change: dict[str, Any], side: Literal["before", "after"], configured: set[tuple[str, str]]
) -> Iterator[SecurityGroupRule]:
    values = change["change"].get(side)
    if not isinstance(values, dict):
        return
    unknown = change["change"].get("after_unknown") if side == "after" else {}
    unknown = unknown if isinstance(unknown, dict) else {}
    previous = change["change"].get("before")
    previous = previous if isinstance(previous, dict) else {}
    kind = change.get("type", "")
    if kind == "aws_security_group_rule":
        yield _classic(change["address"], values, unknown, previous)
    elif kind in ("aws_vpc_security_group_ingress_rule", "aws_vpc_security_group_egress_rule"):
        yield _single(change["address"], values, unknown, previous, "egress" if "egress" in kind else "ingress")
    elif kind in _INLINE:
        for direction in _DIRECTIONS:
            if (plain_address(change), direction) in configured:
                yield from _inline(change["address"], values, unknown, previous, direction)


def _classic(
    address: str, values: dict[str, Any], unknown: dict[str, Any], previous: dict[str, Any]
) -> SecurityGroupRule:
    """A rule of `aws_security_group_rule`."""
    group = _text(values.get("security_group_id")) or _text(previous.get("security_group_id"))
    peers = list(_peers(values, group, "source_security_group_id"))
    watched = (
        "protocol",
        "from_port",
        "to_port",
        "cidr_blocks",
        "ipv6_cidr_blocks",
        "source_security_group_id",
        "self",
    )
    direction: Direction = "egress" if values.get("type") == "egress" else "ingress"
    return _rule(address, group, direction, values.get("protocol"), values, peers, _known(unknown, watched, group))


def _single(
    address: str, values: dict[str, Any], unknown: dict[str, Any], previous: dict[str, Any], direction: Direction
) -> SecurityGroupRule:
    """A rule of `aws_vpc_security_group_ingress_rule` or `..._egress_rule`."""
    group = _text(values.get("security_group_id")) or _text(previous.get("security_group_id"))
    listed = {
        "cidr_blocks": [values["cidr_ipv4"]] if values.get("cidr_ipv4") else [],
        "ipv6_cidr_blocks": [values["cidr_ipv6"]] if values.get("cidr_ipv6") else [],
        "prefix_list_ids": [values["prefix_list_id"]] if values.get("prefix_list_id") else [],
        "referenced_security_group_id": values.get("referenced_security_group_id"),
    }
    peers = list(_peers(listed, group, "referenced_security_group_id"))
    watched = ("ip_protocol", "from_port", "to_port", "cidr_ipv4", "cidr_ipv6", "referenced_security_group_id")
    return _rule(address, group, direction, values.get("ip_protocol"), values, peers, _known(unknown, watched, group))


def _inline(
    address: str, values: dict[str, Any], unknown: dict[str, Any], previous: dict[str, Any], direction: Direction
) -> Iterator[SecurityGroupRule]:
    """The `ingress` or `egress` blocks of a security group."""
    group = _text(values.get("id")) or _text(previous.get("id"))
    for block in _list(values.get(direction)):
        if isinstance(block, dict):
            peers = list(_peers(block, group, "security_groups"))
            certain = bool(group) and not _any_true(unknown.get(direction))
            yield _rule(address, group, direction, block.get("protocol"), block, peers, certain)


def _outside(
    changes: list[dict[str, Any]], configured: set[tuple[str, str]], managed: list[SecurityGroupRule]
) -> list[SecurityGroupRule]:
    """Return rules that exist and that this plan does not manage; they stay.

    The state of a security group lists all of its rules, those of separate resources too. What remains after taking
    these away was made outside of Terraform.
    """
    found = []
    for change in changes:
        values = change["change"].get("before")
        if (
            change.get("type") not in _INLINE
            or not isinstance(values, dict)
            or change["change"]["actions"] == ["delete"]
        ):
            continue
        for direction in _DIRECTIONS:
            if (plain_address(change), direction) not in configured:
                for rule in _inline(change["address"], values, {}, {}, direction):
                    known = {
                        peer
                        for other in managed
                        if (other.group, other.direction, other.protocol, other.ports)
                        == (rule.group, rule.direction, rule.protocol, rule.ports)
                        for peer in other.peers
                    }
                    peers = tuple(peer for peer in rule.peers if peer not in known)
                    if peers:
                        found.append(msgspec.structs.replace(rule, peers=peers))
    return found


def _peers(values: dict[str, Any], group: str, reference: str) -> Iterator[Peer]:
    if values.get("self") is True:
        yield Peer(kind="self")
    others = values.get(reference)
    for other in [others] if isinstance(others, str) and others else _list(others):
        # "account/sg-…" names a group of a peered VPC.
        yield Peer(kind="self") if group and other == group else Peer(kind="group", value=str(other))
    for network in [*_list(values.get("cidr_blocks")), *_list(values.get("ipv6_cidr_blocks"))]:
        yield Peer(kind="cidr", value=str(network))
    for prefix_list in _list(values.get("prefix_list_ids")):
        yield Peer(kind="other", value=str(prefix_list))


def _rule(
    address: str,
    group: str,
    direction: Direction,
    protocol: Any,
    values: dict[str, Any],
    peers: list[Peer],
    certain: bool,
) -> SecurityGroupRule:
    name = {"all": "-1", "6": "tcp", "17": "udp"}.get(str(protocol).lower(), str(protocol).lower())
    first, last = values.get("from_port"), values.get("to_port")
    ports = ANY_PORT
    if name != "-1" and isinstance(first, int) and isinstance(last, int):
        ports = (first, last)
    elif name != "-1":
        certain = False
    if not peers:
        certain = False
    return SecurityGroupRule(
        address=address,
        group=group,
        direction=direction,
        protocol=name,
        ports=ports,
        peers=tuple(peers),
        certain=certain,
    )


def _known(unknown: dict[str, Any], watched: tuple[str, ...], group: str) -> bool:
    return bool(group) and not any(_any_true(unknown.get(name)) for name in watched)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _any_true(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_any_true(item) for item in value.values())
    if isinstance(value, list):
        return any(_any_true(item) for item in value)
    return value is True


def _attachments(changes: list[dict[str, Any]]) -> Iterator[frozenset[str]]:
    for change in changes:
        if change.get("type") in (*_INLINE, "aws_security_group_rule") or change["change"]["actions"] == ["delete"]:
            continue
        values = change["change"].get("after") or change["change"].get("before")
        for found in _lists_of_groups(values):
            if len(found) > 1:
                yield frozenset(found)


def _lists_of_groups(values: Any) -> Iterator[set[str]]:
    if isinstance(values, dict):
        for name, value in values.items():
            if name in _ATTACHING and isinstance(value, list):
                yield {item for item in value if isinstance(item, str) and item.startswith("sg-")}
            else:
                yield from _lists_of_groups(value)
    elif isinstance(values, list):
        for item in values:
            yield from _lists_of_groups(item)


def _vpc_cidrs(changes: list[dict[str, Any]], data: dict[str, Any]) -> Iterator[str]:
    for change in changes:
        if change.get("type") == "aws_vpc":
            values = _mapping(change["change"].get("after") or change["change"].get("before"))
            if isinstance(values.get("cidr_block"), str):
                yield values["cidr_block"]
    state = _mapping(_mapping(data.get("prior_state")).get("values"))
    for resource in _state_resources(state.get("root_module")):
        values = _mapping(resource.get("values"))
        if resource.get("type") == "aws_vpc" and isinstance(values.get("cidr_block"), str):
            yield values["cidr_block"]


def _state_resources(module: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(module, dict):
        return
    yield from (item for item in _list(module.get("resources")) if isinstance(item, dict))
    for child in _list(module.get("child_modules")):
        yield from _state_resources(child)


def _uses_efa(change: dict[str, Any]) -> bool:
    values = change["change"].get("after") or change["change"].get("before")
    return "efa" in _interface_types(values)


def _interface_types(values: Any) -> Iterator[str]:
    if isinstance(values, dict):
        for name, value in values.items():
            if name == "interface_type" and isinstance(value, str):
                yield value.partition("-")[0]
            else:
                yield from _interface_types(value)
    elif isinstance(values, list):
        for item in values:
            yield from _interface_types(item)


def _is_teardown(changes: list[dict[str, Any]]) -> bool:
    nodes = [
        change for change in changes if change.get("type") in _NODES and change.get("mode", "managed") == "managed"
    ]
    return bool(nodes) and all(change["change"]["actions"] == ["delete"] for change in nodes)
