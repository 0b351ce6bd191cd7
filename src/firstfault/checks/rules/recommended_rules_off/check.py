"""The toggle that takes training traffic, webhooks and egress away together."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.edits import SetArgument
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unresolved
from firstfault.checks.terraform.eks import EksModule, eks_modules, is_set
from firstfault.checks.terraform.security_groups import TRAINING_PORTS, module_node_group, open_ports
from firstfault.checks.terraform.tracing import variable_behind

_TOGGLE = "node_security_group_enable_recommended_rules"


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every call of the EKS module that sets the toggle."""
    for eks in eks_modules(inventory):
        if is_set(eks.block.get(_TOGGLE)) and eks.get("create_node_security_group") is not False:
            yield _judge(eks)


def _judge(eks: EksModule) -> Outcome:
    value = eks.block.get(_TOGGLE)
    variable = variable_behind(eks.config, eks.block, _TOGGLE)
    place = variable.place if variable is not None else eks.block.place(_TOGGLE)
    if isinstance(value, Unresolved):
        return unresolved(place, eks.block.address, _TOGGLE, value)
    if value is not False:
        return passed(place, eks.block.address)
    group = module_node_group(eks)
    own = [rule for rule in group.rules if rule.direction == "ingress" and "self" in rule.peers]
    if open_ports(own, "tcp", TRAINING_PORTS):
        return passed(place, eks.block.address, "off, and rules of your own allow traffic between the nodes")
    if group.unknown:
        return unresolved(place, eks.block.address, "node_security_group_additional_rules", Unresolved(group.unknown))
    source = (
        f" by variable {variable.name} ({_file(variable.source)})" if variable is not None and variable.source else ""
    )
    name = _TOGGLE if variable is None else "default" if variable.source == "default" else variable.name
    edit = SetArgument(path=place.path, line=place.line, name=name, value="true")
    return failed(
        place,
        eks.block.address,
        f"{_TOGGLE} is false{source}: node self-reference 1025-65535/tcp, five webhook "
        "ports and the egress of the nodes go together",
        edits=[] if eks.config.is_plan else [edit],
    )


def _file(source: str) -> str:
    return source.rpartition("/")[2]
