"""What checks see of Terraform: evaluated blocks of a root with one set of variable values, or of a plan."""

from __future__ import annotations

from typing import Any

import msgspec

from firstfault.checks.located import LocatedDict, Place, dig, place_of

__all__ = ["TerraformBlock", "TerraformConfig", "VariableValue"]


class TerraformBlock(msgspec.Struct, frozen=True, eq=False):
    """One instance of a block after `count`, `for_each` and `dynamic`.

    Attributes:
        kind: resource · data · module · provider · output · check · import · moved · removed.
        type: First label of resources and data ("aws_security_group"); for a module call its source.
        name: Last label.
        address: Full address ("module.net.aws_security_group.node[0]").
        body: Evaluated arguments; a nested block is a list of mappings under its type, whatever its number.
        path: File of the block.
        module: Address of the module that holds it; empty in the root.
        written: Each argument's expression as it is written ("var.enabled").
    """

    kind: str
    type: str
    name: str
    address: str
    body: LocatedDict
    path: str
    module: str = ""
    written: dict[str, str] = {}

    def get(self, *steps: str | int) -> Any:
        """Return the value at `steps`, an `Unresolved`, or ABSENT."""
        return dig(self.body, *steps)

    def place(self, *steps: str | int) -> Place:
        """Return the line of the value at `steps`, or of its nearest ancestor that exists."""
        return place_of(self.path, self.body, *steps)


class VariableValue(msgspec.Struct, frozen=True, eq=False):
    """One input variable of a root.

    Attributes:
        name: Its name.
        value: Its value with this set of tfvars, or `Unresolved`.
        source: Where the value comes from: "default", a tfvars file's path, or "" when it is unresolved.
        place: The line that sets the value; the declaration when nothing does.
        declaration: The evaluated `variable` block (`validation` blocks, `type`, `sensitive`); conditions stay text.
    """

    name: str
    value: Any
    source: str
    place: Place
    declaration: TerraformBlock


class TerraformConfig(msgspec.Struct, frozen=True, eq=False):
    """A root module with one set of variable values, or one plan.

    Attributes:
        root: Directory of the root module, or path of the plan file.
        var_file: The tfvars file beyond the automatic ones that was applied; empty for none.
        blocks: Every block of the root and of its local modules, in file order.
        variables: Input variables of the root by name.
        is_plan: True for `terraform show -json` output; `blocks` are then the planned resources, and each body has
            `change_actions` beside the planned values.
        local_sources: Expressions of the root's locals, as written.
    """

    root: str
    blocks: list[TerraformBlock]
    variables: dict[str, VariableValue] = {}
    var_file: str = ""
    is_plan: bool = False
    local_sources: dict[str, str] = {}

    def find(self, kind: str, *types: str) -> list[TerraformBlock]:
        """Return the blocks of a kind, and of one of `types` where any is given."""
        return [block for block in self.blocks if block.kind == kind and (not types or block.type in types)]
