"""Rights that only read, as the two documents that grant them: a ClusterRole and an IAM policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["read_only"]


def read_only(name: str, resources: Iterable[tuple[str, str]], actions: Sequence[str]) -> dict[str, Any]:
    """Return a role and a policy that allow to read these things, and nothing more.

    Args:
        name: Name of the ClusterRole, in lower case with dashes; the policy's statement is called like it.
        resources: API group ("" for core) and plural of each resource.
        actions: IAM actions; none of them can be narrowed to a resource.

    Returns:
        `rbac`: the ClusterRole · `iam`: the IAM policy.
    """
    by_group: dict[str, list[str]] = {}
    for group, plural in resources:
        by_group.setdefault(group, []).append(plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(plurals), "verbs": ["get", "list"]}
        for group, plurals in sorted(by_group.items())
    ]
    statement = {
        "Sid": name.title().replace("-", ""),
        "Effect": "Allow",
        "Action": sorted(actions),
        "Resource": "*",
    }
    return {
        "rbac": {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        },
        "iam": {"Version": "2012-10-17", "Statement": [statement]},
    }
