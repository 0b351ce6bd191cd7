"""EKS as checks see it: calls of terraform-aws-modules/eks of any version, and node groups however they are written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import ABSENT, LocatedDict, Place, Unresolved, dig
from firstfault.checks.terraform.instances import has_gpu
from firstfault.checks.terraform.model import TerraformBlock, TerraformConfig

__all__ = ["EksModule", "NodeGroup", "eks_modules", "is_set", "node_groups"]

_REGISTRY = re.compile(r"(?:[\w.-]+/)?terraform-aws-modules/eks/aws")
_GIT = re.compile(r"terraform-aws-modules/terraform-aws-eks(?:\.git)?(?:\?|$)")
_GROUP_REGISTRY = re.compile(r"(?:[\w.-]+/)?terraform-aws-modules/eks/aws//modules/(eks|self)-managed-node-group")
_GROUP_GIT = re.compile(r"terraform-aws-modules/terraform-aws-eks(?:\.git)?//modules/(eks|self)-managed-node-group")
_NUMBERS = re.compile(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?")
_REF = re.compile(r"[?&]ref=v?(\d+)")
_CONSTRAINT = re.compile(r"(~>|>=|<=|!=|=|>|<)?\s*v?(\d+)(?:\.(\d+))?(?:\.(\d+))?")
_NVIDIA_VARIANT = re.compile(r"NVIDIA|GPU", re.IGNORECASE)


def is_set(value: Any) -> bool:
    """Tell whether an argument is set: there, and not null."""
    return value is not ABSENT and value is not None


class EksModule(msgspec.Struct, frozen=True, eq=False):
    """One call of terraform-aws-modules/eks."""

    block: TerraformBlock
    config: TerraformConfig

    @property
    def majors(self) -> tuple[int, int | None]:
        """(lowest, highest) major version that the call admits; the highest is None when it is open."""
        ref = _REF.search(self.block.type)
        if ref:
            return int(ref[1]), int(ref[1])
        version = self.block.get("version")
        return _bounds(version) if isinstance(version, str) else (0, None)

    @property
    def node_group_id(self) -> str:
        """Reference of the node security group that the module creates."""
        return f"{self.block.address}.node_security_group_id"

    def get(self, *names: str) -> Any:
        """Return the first of several arguments that is set (they were renamed between versions), or ABSENT."""
        for name in names:
            value = self.block.get(name)
            if is_set(value):
                return value
        return ABSENT

    def place(self, *names: str) -> Place:
        """Return the line of the first argument that is set, or of the call."""
        for name in names:
            if is_set(self.block.get(name)):
                return self.block.place(name)
        return self.block.place()

    @property
    def addons(self) -> tuple[str, Any]:
        """(name of the argument, value) of the add-ons: `addons` since v21, `cluster_addons` before."""
        for name in ("addons", "cluster_addons"):
            value = self.block.get(name)
            if is_set(value):
                return name, value
        return "addons", ABSENT


def _bounds(constraint: str) -> tuple[int, int | None]:
    """Return the major versions that a version constraint admits."""
    low, high = 0, None
    for part in constraint.split(","):
        match = _CONSTRAINT.fullmatch(part.strip())
        if match is None:
            continue
        operator, major, minor, patch = match[1] or "=", int(match[2]), match[3], match[4]
        if operator == "=":
            return major, major
        if operator == "~>":
            # "~> 20.0" and "~> 20.1.2" stay in 20; "~> 20" does not.
            low, high = max(low, major), (major if minor is not None else high)
        elif operator in {">=", ">"}:
            low = max(low, major)
        elif operator in {"<=", "<"}:
            below = operator == "<" and not int(minor or 0) and not int(patch or 0)
            high = min(high if high is not None else major, major - below)
    return low, high


class NodeGroup(msgspec.Struct, frozen=True, eq=False):
    """A group of nodes.

    Attributes:
        kind: managed (EKS managed by the module) · self (self-managed by the module) · resource (`aws_eks_node_group`).
        name: Key or name of the group.
        block: Block in which it stands.
        steps: Where its arguments stand in the block.
        defaults: Name of the argument with defaults for all groups; empty where there is none.
        eks: The module call it belongs to, or None.
        config: The configuration.
    """

    kind: str
    name: str
    block: TerraformBlock
    steps: tuple[str, ...]
    defaults: str
    eks: EksModule | None
    config: TerraformConfig

    @property
    def subject(self) -> str:
        """Stable name for findings."""
        return f"{self.block.address}#{self.name}" if self.steps else self.block.address

    def get(self, *path: str | int) -> Any:
        """Return the group's argument, else the default for all groups, else ABSENT. null counts as not set."""
        for steps in self._places():
            base = self.block.get(*steps) if steps else self.block.body
            if isinstance(base, Unresolved):
                return base
            if is_set(dig(base, path[0])):
                return dig(base, *path)
        return ABSENT

    def place(self, *path: str | int) -> Place:
        """Return the line of an argument, of the default that sets it, or of the group."""
        for steps in self._places():
            base = self.block.get(*steps) if steps else self.block.body
            if path and is_set(dig(base, path[0])):
                return self.block.place(*steps, *path)
        return self.block.place(*self.steps)

    def _places(self) -> Iterator[tuple[str, ...]]:
        yield self.steps
        if self.defaults and is_set(self.block.get(self.defaults)):
            yield (self.defaults,)

    @property
    def instance_types(self) -> list[str] | Unresolved:
        """Instance types; empty when none is written (the service's default has no GPU)."""
        value = self.get("instance_types")
        if not is_set(value):
            single = self.get("instance_type")
            value = [single] if is_set(single) else []
        unknown = (
            value
            if isinstance(value, Unresolved)
            else next((item for item in value if isinstance(item, Unresolved)), None)
        )
        return unknown if unknown is not None else [str(item) for item in value]

    @property
    def ami_type(self) -> str | Unresolved:
        """`ami_type`, or empty."""
        value = self.get("ami_type")
        return value if isinstance(value, Unresolved) else str(value) if is_set(value) else ""

    @property
    def is_gpu(self) -> bool | None:
        """True where the instance type or the image says so; None where neither can be known."""
        types, image = self.instance_types, self.ami_type
        if isinstance(image, str) and _NVIDIA_VARIANT.search(image):
            return True
        if isinstance(types, Unresolved):
            return None
        return any(has_gpu(item) for item in types)

    @property
    def is_spot(self) -> bool:
        """True for capacity_type SPOT."""
        return bool(self.get("capacity_type") == "SPOT")

    def size(self, which: str) -> int | Unresolved | None:
        """Return `min`, `max` or `desired` size; None where it is not written."""
        value = self.get(f"{which}_size")
        if not is_set(value) and self.kind == "resource":
            value = self.block.get("scaling_config", 0, f"{which}_size")
        if isinstance(value, Unresolved):
            return value
        return int(value) if isinstance(value, (int, float)) else None

    @property
    def launch_template(self) -> TerraformBlock | None:
        """The `aws_launch_template` that a resource-style group uses, when it stands in the same configuration."""
        for key in ("id", "name"):
            value = self.block.get("launch_template", 0, key)
            ref = value.ref.removesuffix(f".{key}") if isinstance(value, Unresolved) else ""
            for template in self.config.find("resource", "aws_launch_template"):
                if template.address == ref or (is_set(value) and value == template.get("name")):
                    return template
        return None


def eks_modules(inventory: Inventory) -> list[EksModule]:
    """Return every call of terraform-aws-modules/eks."""
    found: list[EksModule] = inventory.memo(
        "eks_modules",
        lambda: [
            EksModule(block, config)
            for config in inventory.terraform
            for block in config.find("module")
            if _REGISTRY.fullmatch(block.type) or _GIT.search(block.type)
        ],
    )
    return found


def node_groups(inventory: Inventory) -> list[NodeGroup]:
    """Return every group of nodes: of the module, of its submodules, and written as resources."""
    found: list[NodeGroup] = inventory.memo("node_groups", lambda: list(_node_groups(inventory)))
    return found


def _node_groups(inventory: Inventory) -> Iterator[NodeGroup]:
    for eks in eks_modules(inventory):
        for kind, argument, defaults in (
            ("managed", "eks_managed_node_groups", "eks_managed_node_group_defaults"),
            ("self", "self_managed_node_groups", "self_managed_node_group_defaults"),
        ):
            groups = eks.block.get(argument)
            if isinstance(groups, LocatedDict):
                for name, body in groups.items():
                    if isinstance(body, LocatedDict):
                        steps = (argument, str(name))
                        yield NodeGroup(kind, str(name), eks.block, steps, defaults, eks, eks.config)
    for config in inventory.terraform:
        for block in config.find("module"):
            match = _GROUP_REGISTRY.fullmatch(block.type.partition("?")[0]) or _GROUP_GIT.search(block.type)
            if match:
                kind = "managed" if match[1] == "eks" else "self"
                yield NodeGroup(kind, block.name, block, (), "", None, config)
        for block in config.find("resource", "aws_eks_node_group"):
            yield NodeGroup("resource", block.name, block, (), "", None, config)
