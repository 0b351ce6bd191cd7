"""IAM policies among the inputs: JSON files, Terraform's policies and roles, with the line of each statement.

What Terraform knows only when it runs (the account id, a role's ARN) is replaced by a stand-in, the same one
everywhere, because the questions asked here do not depend on which account it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from firstfault.checks.iam.policy import Policy, Statement, parse_policy
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Place, Unresolved
from firstfault.checks.terraform.model import TerraformBlock, TerraformConfig
from firstfault.errors import InputError

__all__ = ["ACCOUNT", "REGION", "PolicySource", "Principal", "bucket_arn", "policy_sources", "principals", "role_arn"]

ACCOUNT = "111122223333"
REGION = "us-east-1"
_GAP = re.compile(r"\$\{([\w.\[\]\"*-]+)\}")
_DECLARED = re.compile(r"(?:^|\.)aws_(?:iam_role|iam_user|s3_bucket)\.")
_IAM_VARIABLE = re.compile(r"(?:aws|ec2|s3|iam|saml|sts|cognito-identity)(?::|\.amazonaws)")
_ARGUMENTS = {
    "aws_organizations_policy": ("content", "control"),
    "aws_iam_policy": ("policy", "identity"),
    "aws_iam_role_policy": ("policy", "identity"),
    "aws_iam_user_policy": ("policy", "identity"),
    "aws_iam_group_policy": ("policy", "identity"),
}
_DOCUMENT = re.compile(r"data\.aws_iam_policy_document\.([\w-]+)(?:\[\d+\])?\.(?:minified_)?json")
# AWS's own policies that let their holder edit any security group.
_MANAGED = {
    "AdministratorAccess": "*",
    "PowerUserAccess": "ec2:*",
    "AmazonEC2FullAccess": "ec2:*",
    "AmazonVPCFullAccess": "ec2:*SecurityGroup*",
    "NetworkAdministrator": "ec2:*SecurityGroup*",
}


class PolicySource(msgspec.Struct, frozen=True, eq=False):
    """One policy and where it stands.

    Attributes:
        kind: control (service control policy) · identity · file (a JSON file: may be either).
        places: Place of each statement.
        address: Terraform address, or the file's path.
        name: Name that attachments refer to.
    """

    policy: Policy
    kind: Literal["control", "identity", "file"]
    place: Place
    places: list[Place]
    address: str
    block: TerraformBlock | None = None
    config: TerraformConfig | None = None

    def place_of(self, statement: Statement | None) -> Place:
        """Return the place of one of its statements, or of the policy."""
        for known, place in zip(self.policy.statements, self.places, strict=False):
            if known is statement:
                return place
        return self.place


class Principal(msgspec.Struct, frozen=True, eq=False):
    """A role, user or group that the configuration declares.

    Attributes:
        arn: With a stand-in for the account.
        policies: Identity policies that are attached.
        boundary: Permissions boundary, where it is among the inputs.
        unknown: Why some policies are not known; empty when all are.
    """

    name: str
    arn: str
    place: Place
    address: str
    policies: list[Policy]
    boundary: Policy | None
    unknown: str = ""


def policy_sources(inventory: Inventory) -> list[PolicySource]:
    """Return every policy that can be read, trust policies and resource policies left out."""
    found: list[PolicySource] = inventory.memo("policy_sources", lambda: list(_sources(inventory)))
    return found


def _sources(inventory: Inventory) -> Iterator[PolicySource]:
    for document in inventory.iam:
        try:
            policy = parse_policy(document.body, document.path)
        except InputError:
            continue
        if any(statement.principals or statement.not_principals for statement in policy.statements):
            continue
        places = [Place(document.path, statement.line or 1) for statement in policy.statements]
        yield PolicySource(policy, "file", document.place(), places, document.path)
    for config in inventory.terraform:
        for kind, (argument, role) in _ARGUMENTS.items():
            for block in config.find("resource", kind):
                if kind == "aws_organizations_policy" and (block.get("type") or _CONTROL_TYPE) != _CONTROL_TYPE:
                    continue
                source = _from_block(config, block, argument, role)
                if source is not None:
                    yield source


_CONTROL_TYPE = "SERVICE_CONTROL_POLICY"


def _from_block(config: TerraformConfig, block: TerraformBlock, argument: str, kind: str) -> PolicySource | None:
    policy = _policy(config, block.get(argument), block.address)
    if policy is None:
        return None
    place = block.place(argument)
    places = [place] * len(policy.statements)
    match = _DOCUMENT.fullmatch(block.written.get(argument, "").strip())
    if match:
        for document in config.find("data", "aws_iam_policy_document"):
            if document.name == match[1] and document.module == block.module:
                statements = document.get("statement")
                if isinstance(statements, list) and len(statements) == len(policy.statements):
                    places = [document.place("statement", index) for index in range(len(statements))]
    return PolicySource(
        policy, "control" if kind == "control" else "identity", places[0] if places else place, places, block.address,
        block, config,
    )  # fmt: skip


def _policy(config: TerraformConfig, value: Any, name: str) -> Policy | None:
    text = value.text if isinstance(value, Unresolved) else value
    if not isinstance(text, str) or not text:
        return None
    try:
        return parse_policy(_fill(config, text), name)
    except InputError:
        return None


def _fill(config: TerraformConfig, text: str) -> str:
    """Replace the gaps that Terraform would fill, and leave IAM's own variables."""

    def replace(match: re.Match[str]) -> str:
        ref = match[1]
        if _IAM_VARIABLE.match(ref):
            return match[0]
        if "aws_region" in ref or "region" in ref.rpartition(".")[2]:
            return REGION
        if "partition" in ref:
            return "aws"
        if ref.endswith(".arn") and _DECLARED.search(ref):
            return _arn_of(config, ref)
        before = text[: match.start()]
        if re.search(r"arn:[\w-]+:[\w-]*:[\w-]*:$", before) or "account" in ref:
            return ACCOUNT
        name = re.sub(r"[^\w-]+", "-", ref).strip("-")
        return f"arn:aws:iam::{ACCOUNT}:role/{name}" if "arn" in ref.rpartition(".")[2] else name

    return _GAP.sub(replace, text)


def _arn_of(config: TerraformConfig, ref: str) -> str:
    address = ref.removesuffix(".arn")
    for block in config.find("resource", "aws_iam_role", "aws_iam_user", "aws_s3_bucket"):
        if block.address == address:
            return bucket_arn(block) if block.type == "aws_s3_bucket" else role_arn(block)
    if "aws_s3_bucket" in ref:
        return f"arn:aws:s3:::{address.rpartition('.')[2]}"
    kind = "user" if "aws_iam_user" in ref else "role"
    return f"arn:aws:iam::{ACCOUNT}:{kind}/{address.rpartition('.')[2]}"


def role_arn(block: TerraformBlock) -> str:
    """Return the ARN that a declared role or user gets, with a stand-in for the account."""
    name = block.get("name")
    path = block.get("path")
    kind = "user" if block.type == "aws_iam_user" else "role"
    shown = name if isinstance(name, str) else block.name
    return f"arn:aws:iam::{ACCOUNT}:{kind}{path if isinstance(path, str) else '/'}{shown}"


def bucket_arn(block: TerraformBlock) -> str:
    """Return the ARN of a declared bucket; its label stands in for a name that is not known."""
    name = block.get("bucket")
    return f"arn:aws:s3:::{name if isinstance(name, str) else block.name}"


def principals(inventory: Inventory) -> list[Principal]:
    """Return the roles, users and groups of the Terraform configurations, with their policies."""
    found: list[Principal] = inventory.memo(
        "principals",
        lambda: [
            _principal(config, block)
            for config in inventory.terraform
            for block in config.find("resource", "aws_iam_role", "aws_iam_user", "aws_iam_group")
        ],
    )
    return found


def _principal(config: TerraformConfig, block: TerraformBlock) -> Principal:
    kind = block.type.removeprefix("aws_iam_")
    policies: list[Policy] = []
    unknown: list[str] = []
    for inline in _blocks(block.get("inline_policy")):
        policy = _policy(config, inline.get("policy"), f"{block.address} inline")
        policies.extend([policy] if policy else [])
    for item in config.find("resource", f"aws_iam_{kind}_policy"):
        if _names(item.get(kind), block):
            policy = _policy(config, item.get("policy"), item.address)
            policies.extend([policy] if policy else [])
    arns = [item.get("policy_arn") for item in _attachments(config, block, kind)]
    managed = block.get("managed_policy_arns")
    arns.extend(managed if isinstance(managed, list) else [])
    for arn in arns:
        policy, why = _managed_policy(config, arn)
        policies.extend([policy] if policy else [])
        unknown.extend([why] if why else [])
    boundary, _ = _managed_policy(config, block.get("permissions_boundary"))
    return Principal(
        block.name, role_arn(block), block.place(), block.address, policies, boundary, unknown[0] if unknown else ""
    )


def _attachments(config: TerraformConfig, block: TerraformBlock, kind: str) -> Iterator[TerraformBlock]:
    for item in config.find("resource", f"aws_iam_{kind}_policy_attachment"):
        if _names(item.get(kind), block):
            yield item
    for item in config.find("resource", "aws_iam_policy_attachment"):
        members = item.get(f"{kind}s")
        if isinstance(members, list) and any(_names(member, block) for member in members):
            yield item


def _names(value: Any, block: TerraformBlock) -> bool:
    """Tell whether a value names a role: by reference or by its literal name."""
    if isinstance(value, Unresolved):
        return value.ref.removesuffix(".name").removesuffix(".id") == block.address
    return isinstance(value, str) and value == block.get("name")


def _managed_policy(config: TerraformConfig, arn: Any) -> tuple[Policy | None, str]:
    if isinstance(arn, str):
        pattern = _MANAGED.get(arn.rpartition("/")[2]) if ":aws:policy/" in arn else None
        if pattern is None:
            return None, ""
        statement = Statement(effect="Allow", actions=[pattern], resources=["*"])
        return Policy(statements=[statement], name=arn, version="2012-10-17"), ""
    if isinstance(arn, Unresolved):
        for block in config.find("resource", "aws_iam_policy"):
            if arn.ref == f"{block.address}.arn":
                return _policy(config, block.get("policy"), block.address), ""
        return None, arn.reason
    return None, ""


def _blocks(value: Any) -> list[Any]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
