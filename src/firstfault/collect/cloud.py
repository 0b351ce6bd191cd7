"""Reads what the Pods' network interfaces really obey from EC2: groups (their union), rules and network ACLs.

Which interface a Pod uses is never assumed from "the node's security group". A Pod may sit on a secondary interface
with other groups (custom networking) or on a branch interface of its own (security groups for Pods); the interface
that holds the Pod's address is the one that counts. Only `Describe*` calls are made.
"""

from __future__ import annotations

import json
import re
from ipaddress import ip_address, ip_network
from typing import Any

import msgspec

from firstfault.collect.aws_files import refuse_aws_pipes
from firstfault.collect.reachability import Interface, parse_interface
from firstfault.errors import InputError, UnsupportedError

__all__ = ["CloudError", "CloudSnapshot", "PodPlace", "branch_eni", "ec2_place", "find_interface", "read_ec2"]

BATCH = 100
_PROVIDER_ID = re.compile(r"aws:///(?P<region>[a-z]+(?:-[a-z]+)+-\d+)[a-z0-9-]*/(?P<instance>i-[0-9a-f]+)?")


class CloudError(InputError):
    """EC2 could not be asked: no credentials, no right, or no answer."""


class PodPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a Pod runs, from the Kubernetes API alone.

    Attributes:
        name: `namespace/name`.
        address: Pod IP (the node's for hostNetwork).
        node: Node name.
        instance: EC2 instance id of the node, "" when the node is not an EC2 instance.
        branch_eni: Interface id that security groups for Pods gave it, or "".
    """

    name: str
    address: str
    node: str
    instance: str
    branch_eni: str = ""


class CloudSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What EC2 answered, as it answered: the three lists of `describe-*`."""

    interfaces: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    acls: list[dict[str, Any]]


def ec2_place(node: dict[str, Any]) -> tuple[str | None, str]:
    """Return the AWS region of a node (None when it is not on AWS) and its EC2 instance id ("" for Fargate).

    The region is read off the zone, also off those whose name says more: `us-west-2-lax-1a` is in us-west-2.
    """
    found = _PROVIDER_ID.match(str((node.get("spec") or {}).get("providerID", "")))
    return (found["region"], found["instance"] or "") if found else (None, "")


def branch_eni(annotations: dict[str, str]) -> str:
    """Return the interface id in the annotation that the VPC resource controller puts on a Pod, or ""."""
    try:
        data = json.loads(annotations.get("vpc.amazonaws.com/pod-eni", "[]"))
        return str(data[0]["eniId"]) if data else ""
    except (ValueError, KeyError, TypeError, IndexError):
        return ""


def find_interface(snapshot: CloudSnapshot, place: PodPlace) -> Interface | None:
    """Return the interface that holds the Pod's address: directly, by prefix delegation, or as a branch interface."""
    for data in snapshot.interfaces:
        if place.branch_eni and data["NetworkInterfaceId"] == place.branch_eni:
            return parse_interface(data, place.address)
    if not place.address:
        return None
    address = ip_address(place.address)
    for data in snapshot.interfaces:
        held = [entry.get("PrivateIpAddress") for entry in data.get("PrivateIpAddresses", [])]
        prefixes = [entry.get("Ipv4Prefix") for entry in data.get("Ipv4Prefixes", [])]
        if place.address in held or any(address in ip_network(prefix) for prefix in prefixes if prefix):
            return parse_interface(data, place.address)
    return None


def read_ec2(places: list[PodPlace], region: str | None) -> CloudSnapshot:
    """Describe the interfaces of these Pods' nodes, their groups and the ACLs of their subnets.

    Args:
        places: Pods; those on nodes that are not EC2 instances are left out.
        region: AWS region; None for the one that the environment names.

    Raises:
        UnsupportedError: The extra `live` is not installed.
        CloudError: No credentials, no right or no answer; the message names the call.
    """
    try:
        import boto3  # noqa: PLC0415 - heavy, and only needed for live evidence
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
    except ImportError as error:
        raise UnsupportedError(
            f"reading security groups needs the extra `live` ({error})", "pip install 'firstfault[live]'"
        ) from error
    config = Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 3, "mode": "standard"})
    try:
        refuse_aws_pipes()
    except InputError as error:
        raise CloudError(f"EC2 could not be asked: {error.what}", error.todo) from error
    try:
        ec2 = boto3.client("ec2", region_name=region, config=config)
        interfaces = _interfaces(ec2, places)
        group_ids = sorted({group["GroupId"] for each in interfaces for group in each.get("Groups", [])})
        groups = _describe(ec2, "describe_security_groups", "SecurityGroups", "GroupIds", group_ids)
        subnets = sorted({each["SubnetId"] for each in interfaces})
        acls = _by_filter(ec2, "describe_network_acls", "NetworkAcls", "association.subnet-id", subnets)
    except (BotoCoreError, ClientError) as error:
        raise CloudError(
            f"EC2 could not be asked: {error}",
            "log in to the account (aws sts get-caller-identity), or grant ec2:DescribeNetworkInterfaces, "
            "ec2:DescribeSecurityGroups and ec2:DescribeNetworkAcls",
        ) from error
    return CloudSnapshot(interfaces=interfaces, groups=groups, acls=acls)


def _interfaces(ec2: Any, places: list[PodPlace]) -> list[dict[str, Any]]:
    instances = sorted({place.instance for place in places if place.instance})
    branches = sorted({place.branch_eni for place in places if place.branch_eni})
    found = _by_filter(
        ec2, "describe_network_interfaces", "NetworkInterfaces", "attachment.instance-id", instances
    ) + _by_filter(ec2, "describe_network_interfaces", "NetworkInterfaces", "network-interface-id", branches)
    return sorted({each["NetworkInterfaceId"]: each for each in found}.values(), key=lambda e: e["NetworkInterfaceId"])


def _by_filter(ec2: Any, call: str, key: str, name: str, values: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for start in range(0, len(values), BATCH):
        filters = [{"Name": name, "Values": values[start : start + BATCH]}]
        for page in ec2.get_paginator(call).paginate(Filters=filters):
            found += page[key]
    return found


def _describe(ec2: Any, call: str, key: str, argument: str, ids: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for start in range(0, len(ids), BATCH):
        for page in ec2.get_paginator(call).paginate(**{argument: ids[start : start + BATCH]}):
            found += page[key]
    return found
