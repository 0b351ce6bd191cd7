"""A cluster made of real parts: terraform, moto's EC2, the mock API, and ranks in namespaces behind moto's rules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from firstfault.act.world import LocalWorld, NodeSpec
from firstfault.collect.reachability import parse_security_group
from firstfault.drills import EksOptions, find_scenario
from firstfault.model.securitygroups import GroupRule, SecurityGroup
from support.kube_api import KubeApi

REGION = "ap-northeast-2"
ROOT = Path(__file__).parent / "root"
ADDRESSES = {"nccl-master-0": "192.168.10.11", "nccl-worker-0": "192.168.10.12"}


class Cluster:
    """Two EC2 nodes, their groups under Terraform, and a kubelet that runs Pods as processes in namespaces.

    Attributes:
        ec2: moto's client.
        kube: The mock API server.
        terraform_dir: Initialised and applied root module.
    """

    def __init__(self, kube: KubeApi, ec2, folder: Path) -> None:
        self.kube, self.ec2, self.folder = kube, ec2, folder
        vpc = ec2.create_vpc(CidrBlock="192.168.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="192.168.0.0/20")["Subnet"]["SubnetId"]
        ids = [
            ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"]
            for name in ("node", "aux", "cluster")
        ]
        self.node_sg, self.aux_sg, self.cluster_sg = ids
        for group in ids[:2]:
            every = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
            ec2.revoke_security_group_egress(GroupId=group, IpPermissions=every)
        self.allow_drills()
        for index in range(2):
            instance = ec2.run_instances(
                ImageId="ami-12c6146b", MinCount=1, MaxCount=1, SubnetId=subnet, SecurityGroupIds=ids[:2]
            )["Instances"][0]
            provider = f"aws:///{REGION}a/{instance['InstanceId']}"
            kube.add("nodes", {"metadata": {"name": f"node-{index}"}, "spec": {"providerID": provider}})
        kube.add("namespaces", {"metadata": {"name": "train"}})
        self.terraform_dir = folder / "root"
        shutil.copytree(ROOT, self.terraform_dir)
        values = {
            "python": sys.executable,
            "node_sg": self.node_sg,
            "aux_sg": self.aux_sg,
            "cluster_sg": self.cluster_sg,
        }
        lines = "".join(f'{name} = "{value}"\n' for name, value in values.items())
        (self.terraform_dir / "cluster.auto.tfvars").write_text(lines)
        self.terraform("init", "-input=false")
        self.terraform("apply", "-auto-approve", "-input=false")
        self.pods: list[dict] = []
        kube.on_create = self.created

    def allow_drills(self) -> None:
        tags = [{"Key": "firstfault/drill", "Value": "allowed"}]
        self.ec2.create_tags(Resources=[self.node_sg, self.aux_sg], Tags=tags)

    def terraform(self, *words: str) -> None:
        subprocess.run(["terraform", *words, "-no-color"], cwd=self.terraform_dir, check=True, capture_output=True)

    def rules(self) -> dict[str, int]:
        """Count the ingress rules as EC2 has them."""
        answer = self.ec2.describe_security_groups(GroupIds=[self.node_sg, self.aux_sg])["SecurityGroups"]
        return {each["GroupName"]: len(parse_security_group(each).ingress) for each in answer}

    def options(self, **changes) -> EksOptions:
        given = {
            "terraform_dir": str(self.terraform_dir), "namespace": "train", "region": REGION, "gpus": 0,
            "max_duration_s": 300,
        }  # fmt: skip
        return EksOptions(**{**given, **changes})

    # -- the kubelet

    def created(self, plural: str, pod: dict) -> None:
        """Schedule a new Pod; when all ranks are there, run them."""
        if plural != "pods":
            return
        pod["spec"]["nodeName"] = f"node-{len(self.pods) % 2}"
        pod["status"] = {"phase": "Pending"}
        self.pods.append(pod)
        if len(self.pods) == 2:
            pods, self.pods = self.pods, []
            threading.Thread(target=self.run_pods, args=(pods,), daemon=True).start()

    def groups(self) -> list[SecurityGroup]:
        """Translate moto's rules into the local world's."""
        names = {self.node_sg: "node", self.aux_sg: "aux", self.cluster_sg: "cluster"}
        found = []
        for data in self.ec2.describe_security_groups(GroupIds=[self.node_sg, self.aux_sg])["SecurityGroups"]:
            group = parse_security_group(data)
            rules = [
                GroupRule(
                    id=f"{direction}-{index}",
                    direction=direction,
                    protocol="all" if rule.protocol == "-1" else rule.protocol,
                    ports=rule.ports,
                    peer=rule.cidr or ("self" if rule.group == group.id else names[rule.group]),
                )
                for direction, side in (("ingress", group.ingress), ("egress", group.egress))
                for index, rule in enumerate(side)
            ]
            found.append(SecurityGroup(name=names[group.id], rules=rules))
        if any(kind == "networkpolicies" for kind, _, _ in self.kube.objects):
            # The policy of the drill admits DNS only; a CNI enforces it on the Pods' own interfaces.
            found = [
                SecurityGroup(
                    name=group.name, rules=[r for r in group.rules if r.direction == "egress" or r.ports == (53, 53)]
                )
                for group in found
            ]
        return found

    def run_pods(self, pods: list[dict]) -> None:
        """Run the Pods' program in two namespaces under the firewall that EC2's rules make, then set their status."""
        hosts = "127.0.0.1 localhost\n192.168.10.11 nccl-master-0 nccl-master\n192.168.10.12 nccl-worker-0\n"
        specs = [
            NodeSpec(name=name, hostname=name, address=f"{address}/16", files={"/etc/hosts": hosts})
            for name, address in ADDRESSES.items()
        ]
        scratch = self.folder / f"world-{time.monotonic_ns()}"
        config = next(
            obj
            for (kind, _, _), obj in self.kube.objects.items()
            if kind == "configmaps" and "program.py" in obj["data"]
        )
        program = self.folder / "program.py"
        program.write_text(config["data"]["program.py"])
        world = LocalWorld(specs, scratch=scratch, table="firstfault_kubelet")
        world.start()
        try:
            members = {"node": list(ADDRESSES.values()), "aux": list(ADDRESSES.values()), "cluster": []}
            for name in ADDRESSES:
                world.set_firewall(name, self.groups(), members)
            jobs = {}
            for pod in pods:
                container = pod["spec"]["containers"][0]
                env = {each["name"]: each["value"] for each in container["env"]}
                argv = [
                    sys.executable if word == "python3" else word.replace("/firstfault", str(self.folder))
                    for word in container["command"]
                ]
                log = self.folder / f"{pod['metadata']['name']}.log"
                with log.open("wb") as output:
                    job = world.spawn(
                        pod["metadata"]["name"],
                        argv,
                        env={**os.environ, **env},
                        cwd=self.folder,
                        output=output.fileno(),
                    )
                jobs[job] = (pod, log)
                pod["status"]["phase"] = "Running"
            while jobs:
                ended = world.wait_exit(1.0)
                if ended is None or ended.job not in jobs:
                    continue
                pod, log = jobs.pop(ended.job)
                with self.kube.lock:
                    self.kube.logs["train", pod["metadata"]["name"], "rank", False] = log.read_text(errors="replace")
                    code = ended.code if ended.code >= 0 else 128 - ended.code
                    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
                    pod["status"]["containerStatuses"] = [{"name": "rank", "restartCount": 0, "state": state}]
                    pod["status"]["phase"] = "Failed" if code else "Succeeded"
        finally:
            world.close()


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The whole cluster, ready for a drill."""
    if shutil.which("terraform") is None:
        pytest.skip("the program terraform is not on the PATH")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urllib.request.urlopen(f"http://{host}:{port}/moto-api/reset", data=b"").close()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_DEFAULT_REGION": REGION,
        "CHECKPOINT_DISABLE": "1", "FIRSTFAULT_STATE": str(tmp_path / "state"),
    }  # fmt: skip
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with KubeApi() as kube:
        monkeypatch.setenv("KUBECONFIG", kube.kubeconfig(tmp_path, "train"))
        yield Cluster(kube, boto3.client("ec2"), tmp_path)
    server.stop()


@pytest.fixture
def scenario():
    return find_scenario("sg-block")
