"""Admission webhooks as checks see them: which objects of which namespaces wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.labels import selects
from firstfault.checks.located import Place

__all__ = ["Webhook", "webhooks"]


class Webhook(msgspec.Struct, frozen=True, eq=False):
    """One entry of a webhook configuration."""

    owner: KubeObject
    index: int
    body: dict[str, Any]

    @property
    def subject(self) -> str:
        """For findings."""
        return f"{self.owner.subject}#{self.body.get('name', self.index)}"

    @property
    def fails_closed(self) -> bool:
        """Whether an unreachable webhook refuses the request: the default of v1."""
        return str(self.body.get("failurePolicy", "Fail")) == "Fail"

    def place(self, *steps: str | int) -> Place:
        """Return the line of a setting."""
        return self.owner.place("webhooks", self.index, *steps)

    def takes_pods(self) -> bool:
        """Tell whether the creation of Pods waits for it."""
        rules = self.body.get("rules")
        return any(
            isinstance(rule, dict)
            and bool({"", "*"} & _words(rule, "apiGroups"))
            and bool({"pods", "*", "*/*"} & _words(rule, "resources"))
            and bool({"CREATE", "*"} & _words(rule, "operations"))
            for rule in (rules if isinstance(rules, list) else [])
        )

    def takes_namespace(self, labels: dict[str, Any]) -> bool:
        """Tell whether it is asked about a namespace with these labels; a missing selector means all."""
        selector = self.body.get("namespaceSelector")
        return selects(selector if isinstance(selector, dict) else {}, labels)


def _words(rule: dict[str, Any], key: str) -> set[str]:
    value = rule.get(key)
    return {str(item) for item in value} if isinstance(value, list) else set()


def webhooks(inventory: Inventory) -> Iterator[Webhook]:
    """Yield the webhooks of all configurations."""
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        for owner in inventory.objects(kind, "admissionregistration.k8s.io"):
            listed = owner.body.get("webhooks")
            for index, body in enumerate(listed if isinstance(listed, list) else []):
                if isinstance(body, dict):
                    yield Webhook(owner, index, body)
