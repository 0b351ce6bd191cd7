"""The volume that gets the size must be the one that the image keeps containers on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.kube import KubeObject
from firstfault.checks.located import Unresolved, dig
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.terraform.eks import NodeGroup, node_groups

_DEVICES = {"amazon linux": "/dev/xvda", "bottlerocket": "/dev/xvdb"}


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge node groups and EC2NodeClasses whose image family and mappings are known."""
    for group in node_groups(inventory):
        mappings = group.get("block_device_mappings")
        image = group.ami_type
        if group.kind != "resource" and isinstance(mappings, dict) and mappings and isinstance(image, str):
            names = [dig(item, "device_name") for item in mappings.values()]
            yield from _judge_group(group, _family(image), names)
    for item in inventory.objects("EC2NodeClass", "karpenter.k8s.aws"):
        yield from _judge_class(item)


def _family(text: str) -> str:
    lowered = text.lower()
    if "bottlerocket" in lowered:
        return "bottlerocket"
    return "amazon linux" if lowered.startswith(("al2", "al2023")) else ""


def _judge_group(group: NodeGroup, family: str, names: list[Any]) -> Iterator[Outcome]:
    if family and not any(isinstance(name, Unresolved) for name in names):
        place = group.place("block_device_mappings")
        if _DEVICES[family] in names:
            yield passed(place, group.subject)
        else:
            yield failed(place, group.subject, _message(family, names))


def _judge_class(item: KubeObject) -> Iterator[Outcome]:
    mappings = item.get("spec", "blockDeviceMappings")
    terms = item.get("spec", "amiSelectorTerms")
    alias = (
        next((str(term["alias"]) for term in terms if isinstance(term, dict) and "alias" in term), "")
        if isinstance(terms, list)
        else ""
    )
    family = _family(alias or str(item.get("spec", "amiFamily")))
    if not isinstance(mappings, list) or not mappings or not family:
        return
    names = [dig(mapping, "deviceName") for mapping in mappings]
    place = item.place("spec", "blockDeviceMappings")
    if _DEVICES[family] in names:
        yield passed(place, item.subject)
    else:
        yield failed(place, item.subject, _message(family, names))


def _message(family: str, names: list[Any]) -> str:
    return f"{family} keeps images on {_DEVICES[family]}, but only {', '.join(map(str, names))} is sized"
