"""Where everything is among the inputs, something must ship the kernel log of GPU nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.checks.helm import helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.outcome import Outcome, failed, passed

_KERNEL = re.compile(
    r"dmesg|/dev/kmsg|journalctl|systemd|kmsg|nvidia-bug-report|dcgmi\s+diag|/var/log/(?:messages|journal)"
)
_AWAY = re.compile(
    r"s3://|aws s3|\bs3\b|S3_BUCKET|_BUCKET|cloudwatch|loki|elasticsearch|opensearch|splunk|kinesis", re.IGNORECASE
)


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge the inputs as a whole, when they hold GPU Pods."""
    if not inventory.gpu_pods:
        return
    bodies = [(item.place(), item.subject, f"{item.body}") for item in inventory.kube]
    bodies += [(release.place, release.subject, f"{release.values}") for release in helm_releases(inventory)]
    for place, subject, text in bodies:
        if _KERNEL.search(text) and _AWAY.search(text):
            yield passed(place, subject)
            return
    if inventory.complete:
        pod = inventory.gpu_pods[0]
        yield failed(pod.owner.place(), pod.owner.subject, "runs on GPU nodes whose kernel log nothing ships")
