"""Which resources a change of variables must touch, derived from the Terraform configuration, not from a plan.

The configuration is evaluated twice with tfparse (counts, for_each, modules, locals; nothing is executed), with the
variables as they are and as the drill sets them. The instances that disappear are what the plan must destroy, exactly.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstfault.act.terraform import hcl
from firstfault.errors import InputError, UnsupportedError
from firstfault.model.scratch import private_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["expected_destroys"]

_NOT_RESOURCES = {"variable", "locals", "module", "output", "provider", "terraform", "data"}


def expected_destroys(
    root: Path, var_files: list[str], before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[str]:
    """Return the addresses of the resource instances that exist with `before` and not with `after`, sorted.

    Args:
        root: Folder of the root module.
        var_files: The owner's variable files, relative to it.
        before: Variable values of the baseline.
        after: Variable values of the fault.

    Raises:
        UnsupportedError: tfparse is not installed.
        InputError: The configuration cannot be evaluated, or the variables change nothing in it.
    """
    old, new = (_instances(root, var_files, values) for values in (before, after))
    if appeared := new - old:
        raise InputError(
            f"{root}: with these variables resources would appear ({', '.join(sorted(appeared))})",
            "a drill may only take rules away",
        )
    if old == new:
        names = ", ".join(sorted(after))
        raise InputError(
            f"{root}: the variables {names} change nothing in this configuration",
            "see that they are declared there and that `terraform init` has fetched its modules",
        )
    return sorted(old - new)


def _instances(root: Path, var_files: list[str], values: Mapping[str, Any]) -> set[str]:
    try:
        import tfparse  # noqa: PLC0415 - heavy, and only needed for drills on EKS
    except ImportError as error:
        raise UnsupportedError(
            f"evaluating Terraform needs the extra `live` ({error})", "pip install 'firstfault[live]'"
        ) from error
    # tfparse reads variable files only from within the folder, and the owner's folder is not ours to write to: it is
    # looked at through a folder of links beside which the siblings (modules one level up) are linked as well.
    with private_folder("firstfault-tfparse-") as private:
        mirror = private / root.resolve().name
        mirror.mkdir()
        for sibling in root.resolve().parent.iterdir():
            if sibling.name != root.resolve().name and not sibling.name.startswith("."):
                (private / sibling.name).symlink_to(sibling)
        for entry in root.resolve().iterdir():
            (mirror / entry.name).symlink_to(entry)
        own = mirror / "zz-firstfault-drill.tfvars"
        own.write_text("".join(f"{name} = {hcl(value)}\n" for name, value in sorted(values.items())))
        try:
            parsed = tfparse.load_from_path(str(mirror), vars_paths=[*var_files, own.name])
        except (tfparse.ParseError, ValueError) as error:
            raise InputError(f"{root}: the configuration cannot be evaluated: {error}") from error
    return {
        str(block["__tfmeta"]["path"])
        for kind, blocks in parsed.items()
        if kind not in _NOT_RESOURCES
        for block in blocks
        if not str(block["__tfmeta"]["path"]).startswith("data.") and ".data." not in str(block["__tfmeta"]["path"])
    }
