"""Names as Kubernetes allows them: what goes into the path of an API call, or of a file, is checked before it does.

The rules: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

from __future__ import annotations

import re

from firstfault.errors import UsageError

__all__ = ["check_namespace", "is_object_name"]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def is_object_name(name: str) -> bool:
    """Whether a Pod, a container or most other objects could have this name: a DNS subdomain (RFC 1123)."""
    return _SUBDOMAIN.fullmatch(name) is not None


def check_namespace(name: str | None, origin: str) -> None:
    """Refuse what cannot be the name of a namespace, a DNS label (RFC 1123); none at all is no name.

    Args:
        name: What was given.
        origin: Where it was given, such as "--namespace".

    Raises:
        UsageError: No cluster has a namespace of that name.
    """
    if name and _LABEL.fullmatch(name) is None:
        raise UsageError(
            f"{origin} {name!r} is no name of a namespace: at most 63 lower-case letters, digits and hyphens, with a "
            "letter or digit at both ends",
            "`kubectl get namespaces` lists what there is",
        )
