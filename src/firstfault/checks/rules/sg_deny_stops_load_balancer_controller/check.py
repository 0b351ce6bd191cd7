"""Where the AWS Load Balancer Controller is installed, its role must escape the guard."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.helm import HelmRelease, helm_releases
from firstfault.checks.iam.decision import PolicySet
from firstfault.checks.iam.group_guard import (
    ALLOW_ALL,
    EDITS,
    GROUP,
    guards,
    looks_like_load_balancer_controller,
    may,
)
from firstfault.checks.iam.sources import ACCOUNT, principals
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Unresolved
from firstfault.checks.outcome import Outcome, failed, passed, unknown

_CHART = "aws-load-balancer-controller"
_ANNOTATION = "eks.amazonaws.com/role-arn"


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every guard against the role of every installed controller."""
    for release in helm_releases(inventory, _CHART):
        role = _role(inventory, release)
        for guard in guards(inventory):
            place = guard.source.place_of(guard.statements[0])
            if not role:
                yield unknown(
                    place, guard.source.address, "the role of the load-balancer controller is not in these files"
                )
                continue
            policies = PolicySet(identity=[ALLOW_ALL, guard.source.policy])
            refused = [
                edit
                for edit in EDITS
                if "Ingress" in edit and not may(role, edit, GROUP, tags=guard.tags, policies=policies).may_be_allowed
            ]
            if refused:
                yield failed(place, guard.source.address, f"{role} is refused {', '.join(refused)}")
            else:
                yield passed(place, guard.source.address)


def _role(inventory: Inventory, release: HelmRelease) -> str:
    """Return the ARN of the controller's role: of its service account's annotation, else by the role's name."""
    account = release.values.get("serviceAccount")
    annotations = account.get("annotations") if isinstance(account, dict) else None
    value = annotations.get(_ANNOTATION) if isinstance(annotations, dict) else None
    if isinstance(value, str):
        return value.replace("${", "").replace("}", "")
    known = principals(inventory)
    if isinstance(value, Unresolved):
        for principal in known:
            if value.ref == f"{principal.address}.arn":
                return principal.arn
    named = [item.arn for item in known if looks_like_load_balancer_controller(item.name + item.arn.rpartition("/")[2])]
    if named:
        return named[0]
    for item in inventory.objects("ServiceAccount", ""):
        if item.name == _CHART:
            return str(item.annotations.get(_ANNOTATION, ""))
    for block in inventory.blocks("module"):
        if block.get("attach_load_balancer_controller_policy") is True:
            name = next(
                (block.get(key) for key in ("name", "role_name") if isinstance(block.get(key), str)), block.name
            )
            return f"arn:aws:iam::{ACCOUNT}:role/{name}"
    return ""
