"""A two-node EKS-like cluster: the Kubernetes mock API beside moto's EC2, both on loopback."""

from __future__ import annotations

import urllib.request

import boto3
import pytest
from moto.server import ThreadedMotoServer

from support.kube_api import KubeApi

REGION = "ap-northeast-2"

# As torch 2.5 prints it when packets to the master port are dropped (timestamps of the container runtime before it).
MASTER_LOG = """\
2026-04-19T13:25:42.0Z [init] host=nccl-master-0 rank=0 ws=2 master=nccl-master:29500
2026-04-19T13:27:43.4Z torch.distributed.DistStoreError: Timed out after 121 seconds waiting for clients. 1/2 clients \
joined.
"""
WORKER_LOG = """\
2026-04-19T13:25:42.0Z [init] host=nccl-worker-0 rank=1 ws=2 master=nccl-master:29500
2026-04-19T13:27:42.3Z [E419 13:27:42.301344821 socket.cpp:1011] [c10d] The client socket has timed out after 120000ms \
while trying to connect to (nccl-master, 29500).
2026-04-19T13:27:42.4Z torch.distributed.DistNetworkError: The client socket has timed out after 120000ms while \
trying to connect to (nccl-master, 29500).
"""


@pytest.fixture
def kube(tmp_path, monkeypatch):
    """The mock API server, with KUBECONFIG pointing at it."""
    with KubeApi() as api:
        monkeypatch.setenv("KUBECONFIG", api.kubeconfig(tmp_path, "train"))
        monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "kube-cache"))
        yield api


@pytest.fixture
def ec2(monkeypatch):
    """Moto's EC2 on loopback with credentials that are good for nothing else."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    # moto keeps its accounts in the process, over servers: begin empty
    urllib.request.urlopen(f"http://{host}:{port}/moto-api/reset", data=b"").close()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    client = boto3.client("ec2", region_name=REGION)
    yield client
    server.stop()


class Nodes:
    """Two instances whose interfaces obey a node group and an auxiliary group, and a Pod on each."""

    def __init__(self, kube, ec2):
        vpc = ec2.create_vpc(CidrBlock="192.168.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="192.168.0.0/20", AvailabilityZone=f"{REGION}a")["Subnet"]
        self.ec2 = ec2
        self.node_sg, self.aux_sg = (
            ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"]
            for name in ("node", "aux")
        )
        self.self_reference = {
            "IpProtocol": "tcp", "FromPort": 1025, "ToPort": 65535,
            "UserIdGroupPairs": [{"GroupId": self.node_sg}],
        }  # fmt: skip
        self.vpc_allow = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "192.168.0.0/16"}]}
        ec2.authorize_security_group_ingress(GroupId=self.node_sg, IpPermissions=[self.self_reference])
        ec2.authorize_security_group_ingress(GroupId=self.aux_sg, IpPermissions=[self.vpc_allow])
        self.pods = []
        for index, name in enumerate(("nccl-master-0", "nccl-worker-0")):
            instance = ec2.run_instances(
                ImageId="ami-12c6146b", MinCount=1, MaxCount=1, SubnetId=subnet["SubnetId"],
                SecurityGroupIds=[self.node_sg, self.aux_sg],
            )["Instances"][0]  # fmt: skip
            kube.add("nodes", node(f"node-{index}", f"aws:///{REGION}a/{instance['InstanceId']}"))
            self.pods.append(kube.add("pods", pod(name, f"node-{index}", instance["PrivateIpAddress"])))
            kube.logs["train", name, "trainer", False] = MASTER_LOG

    def block(self):
        """Take away both rules that admit training traffic."""
        self.ec2.revoke_security_group_ingress(GroupId=self.node_sg, IpPermissions=[self.self_reference])
        self.ec2.revoke_security_group_ingress(GroupId=self.aux_sg, IpPermissions=[self.vpc_allow])


def node(name, provider_id=""):
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.present": "true"}},
        "spec": {"providerID": provider_id},
        "status": {"allocatable": {"nvidia.com/gpu": "1"}, "capacity": {"nvidia.com/gpu": "1"}},
    }


def pod(name, node_name, address, *, exit_code=1):
    state = {"terminated": {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"}}
    env = [{"name": "MASTER_ADDR", "value": "nccl-master"}, {"name": "MASTER_PORT", "value": "29500"}]
    return {
        "metadata": {"name": name, "namespace": "train", "labels": {"job": "allreduce"}},
        "spec": {"nodeName": node_name, "containers": [{"name": "trainer", "image": "x", "env": env}]},
        "status": {
            "phase": "Failed" if exit_code else "Succeeded",
            "podIP": address,
            "containerStatuses": [{"name": "trainer", "restartCount": 0, "state": state, "ready": False}],
        },
    }


@pytest.fixture
def nodes(kube, ec2):
    return Nodes(kube, ec2)
