"""What refuses a drill before anything is changed: pure decisions over what EC2 and Kubernetes answered."""

from __future__ import annotations

import datetime as dt

import pytest

from firstfault.collect.reachability import parse_security_group
from firstfault.drills.eks.safety import (
    affected_by,
    check_consent,
    check_credentials,
    check_foreign,
    check_lifeline,
)
from firstfault.errors import UsageError

EVERYWHERE = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
KUBELET = {"IpProtocol": "tcp", "FromPort": 10250, "ToPort": 10250, "UserIdGroupPairs": [{"GroupId": "sg-plane"}]}


def interface(eni, groups, instance="i-1"):
    return {
        "NetworkInterfaceId": eni, "SubnetId": "s", "PrivateIpAddress": f"192.168.0.{eni[-1]}",
        "Groups": [{"GroupId": each} for each in groups], "Attachment": {"InstanceId": instance},
    }  # fmt: skip


def group(name, ingress=(), egress=()):
    return parse_security_group({"GroupId": name, "IpPermissions": list(ingress), "IpPermissionsEgress": list(egress)})


def dns(*protocols):
    return [
        {"IpProtocol": each, "FromPort": 53, "ToPort": 53, "UserIdGroupPairs": [{"GroupId": "sg-node"}]}
        for each in protocols
    ]


NODES = [interface("eni-1", ["sg-node", "sg-aux"]), interface("eni-2", ["sg-node", "sg-aux"], "i-2")]


def test_lifeline_is_the_union_of_all_groups_of_an_interface():
    """The auxiliary group's egress keeps the node alive when the node group's is gone."""
    node = group("sg-node", [KUBELET, *dns("tcp", "udp")])
    check_lifeline(NODES, [node, group("sg-aux", egress=[EVERYWHERE])], "sg-plane")
    with pytest.raises(UsageError, match="egress 443"):
        check_lifeline(NODES, [node, group("sg-aux")], "sg-plane")


@pytest.mark.parametrize(
    ("ingress", "lost"),
    [
        ([*dns("tcp", "udp")], "kubelet 10250"),
        ([KUBELET, *dns("tcp")], "DNS 53/udp"),
        ([KUBELET, *dns("udp")], "DNS 53/tcp"),
    ],
)
def test_each_path_of_the_lifeline_is_looked_at(ingress, lost):
    with pytest.raises(UsageError, match=lost):
        check_lifeline(NODES, [group("sg-node", ingress), group("sg-aux", egress=[EVERYWHERE])], "sg-plane")


def node(name, instance):
    return {"metadata": {"name": name}, "spec": {"providerID": f"aws:///eu-west-1a/{instance}"}}


def pod(name, namespace="prod", node_name="node-1", phase="Running", owner="ReplicaSet", labels=None):
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels or {},
            "ownerReferences": [{"kind": owner}],
        },
        "spec": {"nodeName": node_name},
        "status": {"phase": phase},
    }


def reach(pods, interfaces=NODES, accept=()):
    nodes = [node("node-1", "i-1"), node("node-2", "i-2")]
    return affected_by(interfaces, nodes, pods, run="abc", accept=list(accept), run_label="firstfault/run")


def test_foreign_workload_is_listed_and_refused():
    """A Deployment's Pod on a node that would be cut is somebody's; so is an interface that is no node's."""
    affected = reach([pod("web-1")], [*NODES, interface("eni-9", ["sg-node"], "i-database")])
    assert affected.pods == ["prod/web-1"]
    assert len(affected.foreign) == 2
    with pytest.raises(UsageError, match="prod/web-1") as caught:
        check_foreign(affected)
    assert "eni-9" in str(caught.value)


def test_accepted_namespaces_system_pods_and_finished_pods_are_not_foreign():
    pods = [
        pod("web-1"), pod("plugin", owner="DaemonSet"), pod("dns", "kube-system"), pod("done", phase="Succeeded"),
        pod("elsewhere", node_name="cpu-node"), pod("ours", labels={"firstfault/run": "abc"}),
    ]  # fmt: skip
    affected = reach(pods, accept=["prod"])
    assert affected.foreign == []
    assert affected.pods == ["kube-system/dns", "prod/plugin", "prod/web-1"]


def test_another_run_s_pod_is_foreign():
    assert reach([pod("other", labels={"firstfault/run": "xyz"})]).foreign == ["Pod prod/other on node-1"]


def test_consent_is_a_tag_on_every_group():
    yes = {"GroupId": "sg-1", "Tags": [{"Key": "firstfault/drill", "Value": "allowed"}]}
    check_consent([yes])
    with pytest.raises(UsageError, match="sg-2") as caught:
        check_consent([yes, {"GroupId": "sg-2", "Tags": [{"Key": "firstfault/drill", "Value": "no"}]}])
    assert "aws ec2 create-tags --resources sg-2" in caught.value.todo


def test_credentials_must_outlive_the_deadline():
    now = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
    check_credentials(None, 900, now)
    check_credentials(now + dt.timedelta(hours=1), 900, now)
    with pytest.raises(UsageError, match="lapse"):
        check_credentials(now + dt.timedelta(minutes=16), 900, now)
