"""Security groups of a configuration, and what traffic between nodes they let pass.

An interface obeys the *union* of its groups, and a group allows only: one rule in any group is enough, and a group
that nobody thinks of may be the only thing that keeps training alive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import LocatedDict, Place, Unresolved, dig
from firstfault.checks.terraform.eks import EksModule, NodeGroup, eks_modules, is_set
from firstfault.checks.terraform.model import TerraformBlock, TerraformConfig
from firstfault.checks.terraform.values import as_number

__all__ = [
    "TRAINING_PORTS",
    "Rule",
    "SecurityGroup",
    "groups_of",
    "module_node_group",
    "node_sets",
    "open_ports",
    "security_groups",
]

# c10d's default port, and the ephemeral range in which NCCL and gloo listen.
TRAINING_PORTS = ((29500, 29500), (32768, 60999))
_ALL = {"-1", "all"}
_RECOMMENDED_WEBHOOKS = (4443, 6443, 8443, 9443, 10251)
_FIRST_RECOMMENDED_MAJOR = 19


class Rule(msgspec.Struct, frozen=True, eq=False):
    """One rule.

    Attributes:
        direction: ingress or egress.
        protocol: "tcp", "udp", … or "-1" for all.
        first: First port; 0 for all protocols.
        last: Last port.
        peers: What is at the other end: "self", "cluster" (the control plane's group), "cidr:10.0.0.0/8",
            "group:<reference>", "unknown".
        place: Where the rule is written; for rules of a module the call.
        address: Address or name of the rule.
    """

    direction: Literal["ingress", "egress"]
    protocol: str
    first: int
    last: int
    peers: tuple[str, ...]
    place: Place
    address: str

    def covers(self, protocol: str, first: int, last: int) -> bool:
        """Tell whether it lets all of these ports pass."""
        return self.protocol in _ALL or (self.protocol == protocol and self.first <= first and last <= self.last)


class SecurityGroup(msgspec.Struct, frozen=True, eq=False):
    """One group with all of its rules.

    Attributes:
        key: Reference of its id ("aws_security_group.node.id").
        rules: Rules that are known.
        place: Where it is written.
        unknown: Why some of its rules cannot be known; empty when all are.
        tags: Tags that are known.
    """

    key: str
    rules: list[Rule]
    place: Place
    unknown: str = ""
    tags: dict[str, Any] = {}


def open_ports(rules: list[Rule], protocol: str, wanted: tuple[tuple[int, int], ...]) -> bool:
    """Tell whether rules together let all wanted ports pass; adjacent ranges add up."""
    ranges = sorted(
        (0, 65535) if rule.protocol in _ALL else (rule.first, rule.last)
        for rule in rules
        if rule.protocol in _ALL or rule.protocol == protocol
    )
    for first, last in wanted:
        reached = first
        for low, high in ranges:
            if low <= reached <= high:
                reached = high + 1
        if reached <= last:
            return False
    return True


def security_groups(config: TerraformConfig) -> dict[str, SecurityGroup]:
    """Return the groups of a configuration by the reference of their id."""
    groups: dict[str, SecurityGroup] = {}
    for block in config.find("resource", "aws_security_group", "aws_default_security_group"):
        key = f"{block.address}.id"
        tags = block.get("tags")
        groups[key] = SecurityGroup(
            key, list(_inline(block, key)), block.place(), tags=tags if isinstance(tags, LocatedDict) else {}
        )
    for block in config.find("resource", "aws_security_group_rule"):
        _attach(groups, block, _classic(block))
    for direction in ("ingress", "egress"):
        for block in config.find("resource", f"aws_vpc_security_group_{direction}_rule"):
            _attach(groups, block, _modern(block, direction))
    return groups


def _attach(groups: dict[str, SecurityGroup], block: TerraformBlock, rule: Rule | None) -> None:
    key = _ref(block.get("security_group_id"))
    if key and rule is not None:
        group = groups.setdefault(key, SecurityGroup(key, [], block.place()))
        group.rules.append(rule)


def _ref(value: Any) -> str:
    if isinstance(value, Unresolved):
        # Instances of count and for_each (`…node[0].id`) are one group for us.
        return value.ref.replace("[0].id", ".id")
    return str(value) if isinstance(value, str) else ""


def _inline(block: TerraformBlock, key: str) -> Iterator[Rule]:
    for direction in ("ingress", "egress"):
        items = block.get(direction)
        for index, item in enumerate(items if isinstance(items, list) else []):
            if isinstance(item, dict):
                address = f"{block.address}#{direction}[{index}]"
                rule = _rule(direction, item, block.place(direction, index), address, key)
                if rule:
                    yield rule


def _classic(block: TerraformBlock) -> Rule | None:
    direction = "egress" if block.get("type") == "egress" else "ingress"
    return _rule(direction, block.body, block.place(), block.address, _ref(block.get("security_group_id")))


def _modern(block: TerraformBlock, direction: str) -> Rule | None:
    body = dict(block.body)
    body["protocol"] = body.get("ip_protocol")
    body["cidr_blocks"] = [value for value in (body.get("cidr_ipv4"), body.get("cidr_ipv6")) if value]
    body["source_security_group_id"] = body.get("referenced_security_group_id")
    return _rule(direction, body, block.place(), block.address, _ref(block.get("security_group_id")))


def _rule(direction: str, body: dict[str, Any], place: Place, address: str, key: str) -> Rule | None:
    protocol = str(body.get("protocol", "-1"))
    first, last = body.get("from_port", 0), body.get("to_port", 0)
    if isinstance(body.get("protocol"), Unresolved) or isinstance(first, Unresolved) or isinstance(last, Unresolved):
        return None
    protocol = {"6": "tcp", "17": "udp"}.get(protocol, protocol)
    low, high = as_number(first if first is not None else 0), as_number(last if last is not None else first or 0)
    if isinstance(low, Unresolved) or isinstance(high, Unresolved):
        return None
    return Rule(
        direction="egress" if direction == "egress" else "ingress",
        protocol=protocol,
        first=0 if protocol in _ALL else int(low),
        last=65535 if protocol in _ALL else int(high),
        peers=tuple(_peers(body, key)),
        place=place,
        address=address,
    )


def _peers(body: dict[str, Any], key: str) -> Iterator[str]:
    if body.get("self") is True:
        yield "self"
    if body.get("source_cluster_security_group") is True:
        yield "cluster"
    for name in ("cidr_blocks", "ipv6_cidr_blocks"):
        blocks = body.get(name)
        for item in blocks if isinstance(blocks, list) else []:
            yield "unknown" if isinstance(item, Unresolved) and not item.ref else f"cidr:{_ref(item)}"
        if isinstance(blocks, Unresolved):
            yield f"cidr:{blocks.ref}" if blocks.ref else "unknown"
    sources = body.get("security_groups")
    for item in [body.get("source_security_group_id"), *(sources if isinstance(sources, list) else [])]:
        if is_set(item) and item is not None:
            ref = _ref(item)
            yield "self" if ref and ref == key else f"group:{ref}" if ref else "unknown"


def module_node_group(eks: EksModule) -> SecurityGroup:
    """Return the node group's rules that a call of terraform-aws-modules/eks creates, by its version and arguments."""
    rules = list(_module_rules(eks))
    unknown = ""
    additional = eks.get("node_security_group_additional_rules")
    if isinstance(additional, Unresolved):
        unknown = additional.reason
    elif isinstance(additional, LocatedDict):
        for name, body in additional.items():
            place = eks.block.place("node_security_group_additional_rules", str(name))
            if not isinstance(body, dict):
                unknown = body.reason if isinstance(body, Unresolved) else unknown
                continue
            direction = "egress" if body.get("type") == "egress" else "ingress"
            rule = _rule(direction, body, place, f"{eks.block.address}#{name}", eks.node_group_id)
            if rule is None:
                unknown = f"the rule {name} has values that cannot be resolved"
            else:
                rules.append(rule)
    toggle = eks.block.get("node_security_group_enable_recommended_rules")
    if isinstance(toggle, Unresolved):
        unknown = toggle.reason
    tags = eks.get("node_security_group_tags")
    return SecurityGroup(
        eks.node_group_id, rules, eks.block.place(), unknown, tags if isinstance(tags, LocatedDict) else {}
    )


def _module_rules(eks: EksModule) -> Iterator[Rule]:
    place, address = eks.block.place("node_security_group_enable_recommended_rules"), eks.block.address

    def rule(direction: Literal["ingress", "egress"], protocol: str, ports: tuple[int, int], peer: str) -> Rule:
        return Rule(direction, protocol, *ports, (peer,), place, f"{address}#module")

    for port in (443, 10250):
        yield rule("ingress", "tcp", (port, port), "cluster")
    for protocol in ("tcp", "udp"):
        yield rule("ingress", protocol, (53, 53), "self")
    lowest, _ = eks.majors
    toggle = eks.block.get("node_security_group_enable_recommended_rules")
    # The recommended rules came with v19; a call that may still be v18 does not have them.
    recommended = lowest >= _FIRST_RECOMMENDED_MAJOR or lowest == 0
    if recommended and toggle is not False and not isinstance(toggle, Unresolved):
        yield rule("ingress", "tcp", (1025, 65535), "self")
        for port in _RECOMMENDED_WEBHOOKS:
            yield rule("ingress", "tcp", (port, port), "cluster")
        yield rule("egress", "-1", (0, 65535), "cidr:0.0.0.0/0")
    if eks.block.get("enable_efa_support") is True:
        yield rule("ingress", "-1", (0, 65535), "self")
        yield rule("egress", "-1", (0, 65535), "self")


def groups_of(group: NodeGroup) -> tuple[list[SecurityGroup], str]:
    """Return the security groups on the interfaces of a node group, and why some are not known (empty: all are)."""
    known = _groups_by_key(group.config)
    found: list[SecurityGroup] = []
    unknown = ""
    if group.eks is not None and group.eks.get("create_node_security_group") is not False:
        found.append(module_node_group(group.eks))
    for value in _attached(group):
        if isinstance(value, Unresolved) and not value.ref:
            unknown = value.reason
            continue
        key = _ref(value)
        if key in known:
            found.append(known[key])
        elif group.eks is None or key != group.eks.node_group_id:
            unknown = f"the rules of {key} are not in these files"
    if group.get("attach_cluster_primary_security_group") is True or _uses_cluster_group(group):
        found.append(_cluster_group(group))
    return found, unknown


def _groups_by_key(config: TerraformConfig) -> dict[str, SecurityGroup]:
    return security_groups(config)


def _attached(group: NodeGroup) -> Iterator[Any]:
    """Yield the ids of the groups that a node group's launch template attaches."""
    template = group.launch_template
    sources = [group.get("vpc_security_group_ids")]
    if template is not None:
        sources = [template.get("vpc_security_group_ids")]
        interfaces = template.get("network_interfaces")
        for index in range(len(interfaces) if isinstance(interfaces, list) else 0):
            sources.append(dig(interfaces, index, "security_groups"))
    for source in sources:
        if isinstance(source, Unresolved):
            yield source
        elif isinstance(source, list):
            yield from source


def _uses_cluster_group(group: NodeGroup) -> bool:
    """Tell whether EKS attaches the cluster's own group: a managed group whose template names none."""
    return group.kind == "resource" and not list(_attached(group))


def _cluster_group(group: NodeGroup) -> SecurityGroup:
    """Return the group that EKS creates with a cluster: everything between its members, everything outward."""
    place = group.place()
    rules = [
        Rule("ingress", "-1", 0, 65535, ("self",), place, "the cluster security group"),
        Rule("egress", "-1", 0, 65535, ("cidr:0.0.0.0/0",), place, "the cluster security group"),
    ]
    return SecurityGroup("the cluster security group", rules, place)


def node_sets(inventory: Inventory) -> Iterator[tuple[EksModule, SecurityGroup]]:
    """Yield every call of the EKS module that creates a node security group, with that group."""
    for eks in eks_modules(inventory):
        if eks.get("create_node_security_group") is not False:
            yield eks, module_node_group(eks)
