"""Webhooks on Pods must not be able to stop the cluster's own."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.webhooks import Webhook, webhooks

_SYSTEM = {"kubernetes.io/metadata.name": "kube-system"}


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every webhook that Pods wait for."""
    labels = dict(_SYSTEM)
    for namespace in inventory.objects("Namespace", ""):
        if namespace.name == "kube-system":
            labels.update({str(key): str(value) for key, value in namespace.labels.items()})
    for webhook in webhooks(inventory):
        if not webhook.takes_pods():
            continue
        place = webhook.place("failurePolicy")
        if webhook.fails_closed and webhook.takes_namespace(labels) and not _narrowed(webhook):
            how = "is Fail" if "failurePolicy" in webhook.body else "is not set, which means Fail"
            yield failed(place, webhook.subject, f"failurePolicy {how}, and Pods of kube-system wait for it, too")
        else:
            yield passed(place, webhook.subject)


def _narrowed(webhook: Webhook) -> bool:
    """Tell whether labels of Pods, or conditions about them, leave the cluster's own out."""
    selector = webhook.body.get("objectSelector")
    conditions = webhook.body.get("matchConditions")
    if isinstance(conditions, list) and conditions:
        return True
    if not isinstance(selector, dict):
        return False
    expressions = selector.get("matchExpressions")
    listed = [item for item in (expressions if isinstance(expressions, list) else []) if isinstance(item, dict)]
    return bool(selector.get("matchLabels")) or any(item.get("operator") in {"In", "Exists"} for item in listed)
