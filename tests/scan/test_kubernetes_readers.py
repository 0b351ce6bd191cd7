"""Kubernetes objects and what kubectl prints, as facts."""

from __future__ import annotations

import io
import json
import tarfile
from collections import deque

import pytest
import yaml

from firstfault.errors import LimitError
from firstfault.scan.readers import JointAnalysis, detect_reader
from firstfault.scan.sources import open_sources
from scan.reading import joint, read, texts

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "w-0", "namespace": "ml"},
    "spec": {
        "nodeName": "n1",
        "enableServiceLinks": False,
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
        "containers": [
            {
                "name": "main",
                "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "4"}},
                "env": [
                    {"name": "NCCL_DEBUG", "value": "INFO"},
                    {"name": "WORLD_SIZE", "value": "2"},
                    {"name": "HF_TOKEN", "value": "hf_secret"},
                    {"name": "MASTER_ADDR", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
                ],
            }
        ],
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [main]", "lastTransitionTime": "2024-05-01T12:00:00Z"}
        ],
        "containerStatuses": [
            {
                "name": "main",
                "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2024-05-01T12:00:00Z", "message": "step 1\nstep 2"}},
            }
        ],
    },
}  # fmt: skip
POD_FACTS = [
    "pod ml/w-0 phase=Running reason= message=",
    "container ml/w-0/main waiting reason=CrashLoopBackOff exitCode= signal= restarts=3 message=back-off 40s restarting",
    "container ml/w-0/main last-terminated reason=OOMKilled exitCode=137 signal= restarts=3 message=step 1",
    "step 2",
    "pod-spec ml/w-0 node=n1 hostNetwork=false enableServiceLinks=false shm=8Gi nvidia.com/gpu=8",
    "env ml/w-0/main NCCL_DEBUG=INFO",
    "env ml/w-0/main WORLD_SIZE=2",
    "condition pod/ml/w-0 Ready=False reason=ContainersNotReady message=containers with unready status: [main]",
]
EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "ml"},
    "type": "Warning",
    "reason": "FailedScheduling",
    "message": '0/2 nodes are available: 2 Insufficient nvidia.com/gpu. "x"',
    "involvedObject": {"kind": "Pod", "namespace": "ml", "name": "w-0"},
    "firstTimestamp": "2024-05-01T12:00:00Z",
    "lastTimestamp": "2024-05-01T13:00:00Z",
    "count": 42,
}
EVENT_FACT = 'event Warning FailedScheduling Pod/ml/w-0: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu. "x"'
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.present": "true", "node.kubernetes.io/instance-type": "g5.xlarge"}},
    "spec": {"unschedulable": True, "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]},
    "status": {
        "capacity": {"cpu": "4", "nvidia.com/gpu": "1"},
        "allocatable": {"cpu": "3920m", "nvidia.com/gpu": "0", "hugepages-1Gi": "0"},
        "conditions": [{"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory", "message": "ok"}],
        "nodeInfo": {"kubeletVersion": "v1.30.4", "containerRuntimeVersion": "containerd://1.7.22", "kernelVersion": "6.1", "osImage": "Amazon Linux 2023"},
    },
}  # fmt: skip
NODE_FACTS = [
    "node n1 allocatable nvidia.com/gpu=0 capacity nvidia.com/gpu=1 gpu.present=true",
    "node n1 resource cpu allocatable=3920m capacity=4",
    "node n1 kubelet=v1.30.4 runtime=containerd://1.7.22 kernel=6.1 os=Amazon-Linux-2023 instance=g5.xlarge zone=unknown",
    "node n1 unschedulable=true",
    "taint node/n1 nvidia.com/gpu=true:NoSchedule",
    "condition node/n1 MemoryPressure=False reason=KubeletHasSufficientMemory message=ok",
]


def listed(*objects: dict) -> dict:
    return {"apiVersion": "v1", "items": list(objects), "kind": "List", "metadata": {"resourceVersion": ""}}


@pytest.mark.parametrize("dump", [json.dumps, lambda value: json.dumps(value, indent=4), yaml.safe_dump])
def test_objects_alone_and_in_lists(dump):
    """JSON or YAML, alone or in a List: the same facts."""
    for value, expected in ((POD, POD_FACTS), (NODE, NODE_FACTS), (EVENT, [EVENT_FACT])):
        kind, lines = read(dump(value))
        assert kind == "kubernetes"
        assert [line.text for line in lines] == expected
    assert texts(dump(listed(POD, EVENT, NODE))) == [*POD_FACTS, EVENT_FACT, *NODE_FACTS]


def test_facts_know_their_line_and_time():
    """A fact points at the line of the document where its message stands; a fault begins when it was first seen."""
    text = json.dumps(listed(POD, EVENT), indent=4)
    lines = {line.text: line for line in read(text)[1]}
    line = lines[EVENT_FACT]
    assert "Insufficient nvidia.com/gpu" in text.split("\n")[line.line - 1]
    assert text.encode()[line.offset :].split(b"\n")[0].decode() == text.split("\n")[line.line - 1]
    assert line.time == 1714564800.0
    assert (
        '"OOMKilled"' in text.split("\n")[lines[POD_FACTS[2]].line - 1]
        or "step 1" in text.split("\n")[lines[POD_FACTS[2]].line - 1]
    )
    document = "---\n" + yaml.safe_dump(POD) + "---\n" + yaml.safe_dump(EVENT)
    event = {line.text: line for line in read(document)[1]}[EVENT_FACT]
    assert "0/2 nodes are" in document.split("\n")[event.line - 1]


def test_pasted_pieces_are_understood_or_handed_on():
    """A prompt above, a list cut in the middle, a bare status: what can be read is read, the rest stays as text."""
    text = "$ kubectl get pods -o json\n" + json.dumps(listed(POD, EVENT), indent=4)
    cut = text[: text.index('"lastTimestamp"')]
    lines = texts(cut)
    assert set(POD_FACTS) <= set(lines)
    assert any("0/2 nodes are available" in line for line in lines)
    assert "condition pod/-/- Ready=False" in " ".join(texts(yaml.safe_dump({"status": POD["status"]})))
    assert texts("kind: Pod\napiVersion: v1\n  broken: [\n") == ["kind: Pod", "apiVersion: v1", "  broken: ["]


@pytest.mark.parametrize("indent", [None, 2])
def test_what_the_api_server_answered_instead_of_an_object(indent):
    """`kubectl create -o json`, `--raw` and curl give an object of kind Status: its message is what happened."""
    answer = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden",
        "message": 'pods "train-0" is forbidden: exceeded quota: team-a, requested: requests.memory=512Gi',
    }  # fmt: skip
    assert texts(json.dumps(answer, indent=indent)) == [
        f"api-status Failure reason=Forbidden code=403 message={answer['message']}"
    ]


def test_objects_without_their_kind():
    """Support bundles leave out the kind of list members; fields tell it."""
    stripped = [
        {key: value for key, value in item.items() if key not in {"kind", "apiVersion"}} for item in (POD, EVENT, NODE)
    ]
    for value, expected in zip(stripped, (POD_FACTS, [EVENT_FACT], NODE_FACTS), strict=True):
        assert texts(json.dumps([value], indent=1)) == expected
    assert texts(json.dumps({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [stripped[1]]})) == [
        EVENT_FACT
    ]


def test_secrets_never_come_out():
    """Neither Secrets nor ConfigMaps are printed, nor environment values of other names."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"token": "c2VjcmV0"}}
    assert texts(json.dumps(listed(secret))) == []
    assert "hf_secret" not in " ".join(texts(json.dumps(POD)))


def test_new_events_api_and_missing_gpu_key():
    """events.k8s.io/v1 calls things otherwise; a node without the GPU key says `none`, which is not 0."""
    event = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"creationTimestamp": "2024-05-01T12:00:00Z"}, "type": "Normal", "reason": "Pulled", "note": "done", "regarding": {"kind": "Node", "name": "n1"}}  # fmt: skip
    (line,) = read(json.dumps(event))[1]
    assert (line.text, line.time) == ("event Normal Pulled Node/-/n1: done", 1714564800.0)
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n2"},
        "status": {"allocatable": {"pods": "10"}, "capacity": {}},
    }
    assert (
        texts(json.dumps(node))[0]
        == "node n2 allocatable nvidia.com/gpu=none capacity nvidia.com/gpu=none gpu.present=unset"
    )


def test_workloads_policies_and_quotas():
    """Numbers of controllers, switches of the ClusterPolicy, quotas, phases and conditions of unknown kinds."""

    def meta(name):
        return {"name": name, "namespace": "ml"}

    objects = [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("j"), "spec": {"backoffLimit": 0}, "status": {"failed": 1, "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}]}},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta("plugin"), "status": {"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberReady": 0, "numberMisscheduled": 0}},
        {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": {"devicePlugin": {"enabled": False}, "driver": {}}, "status": {"state": "ready"}},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta("q"), "status": {"hard": {"requests.nvidia.com/gpu": "4"}, "used": {"requests.nvidia.com/gpu": "4"}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta("pvc"), "status": {"phase": "Pending"}},
        {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c"}, "status": {"conditions": [{"type": "Launched", "status": "False", "reason": "LaunchFailed", "message": "no capacity"}]}},
        {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta("deny"), "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}},
    ]  # fmt: skip
    assert texts(json.dumps(listed(*objects))) == [
        "job ml/j active=0 succeeded=0 failed=1 backoffLimit=0",
        "condition job/ml/j Failed=True reason=BackoffLimitExceeded message=Job has reached the specified backoff limit",
        "daemonset ml/plugin desired=2 current=2 ready=0 available=0 misscheduled=0",
        "clusterpolicy cluster-policy state=ready devicePlugin.enabled=false driver.enabled=true toolkit.enabled=true",
        "resourcequota ml/q requests.nvidia.com/gpu used=4 hard=4",
        "persistentvolumeclaim ml/pvc phase=Pending reason= message=",
        "condition nodeclaim/c Launched=False reason=LaunchFailed message=no capacity",
        "networkpolicy ml/deny pods=all ingress=0 egress=0",
    ]


def test_services_meet_their_endpoints_over_files():
    """The Service is in one file, its slices in another, its Endpoints mirror in a third."""
    metadata = {"name": "nccl-master", "namespace": "ml"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"clusterIP": "None"}}
    slices = [
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": f"s{n}", "namespace": "ml", "labels": {"kubernetes.io/service-name": "nccl-master"}}, "endpoints": [{"conditions": {"ready": ready}} for ready in readies]}
        for n, readies in enumerate([[True, False], [False]])
    ]  # fmt: skip
    mirror = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": metadata,
        "subsets": [{"addresses": [{}], "notReadyAddresses": [{}, {}]}],
    }
    expected = "service ml/nccl-master clusterIP=None publishNotReadyAddresses=false endpoints="
    sources = {
        "services.json": json.dumps(service),
        "slices.json": json.dumps(listed(*slices)),
        "endpoints.json": json.dumps(mirror),
    }
    assert joint(sources) == [("services.json", expected + "1/2")]
    assert joint({"services.json": json.dumps(service), "endpoints.json": json.dumps(mirror)}) == [
        ("services.json", expected + "1/2")
    ]
    assert joint({"services.json": json.dumps(service)}) == [("services.json", expected + "?/?")]
    assert texts(json.dumps(service)) == [expected + "?/?"]


DESCRIBE_POD = """\
Name:             w-0
Namespace:        ml
Node:             n1/10.0.0.6
Status:           Failed
Reason:           Evicted
Message:          The node was low on resource: ephemeral-storage.
Containers:
  main:
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       Error
      Exit Code:    1
    Ready:          False
    Restart Count:  5
    Environment:
      NCCL_DEBUG:  INFO
      HF_HOME:     /x
    Mounts:
      /dev/shm from shm (rw)
Conditions:
  Type              Status
  PodScheduled      True
Events:
  Type     Reason            Age                   From               Message
  ----     ------            ----                  ----               -------
  Warning  FailedScheduling  2m21s (x42 over 60m)  default-scheduler  0/2 nodes are available: 2 Insufficient  nvidia.com/gpu.
"""
DESCRIBE_NODE = """\
Name:               n1
Roles:              <none>
Labels:             kubernetes.io/os=linux
                    nvidia.com/gpu.present=true
Taints:             nvidia.com/gpu=true:NoSchedule
                    node.kubernetes.io/unreachable:NoExecute
Unschedulable:      true
Conditions:
  Type             Status    LastHeartbeatTime                 LastTransitionTime                Reason                       Message
  ----             ------    -----------------                 ------------------                ------                       -------
  Ready            Unknown   Thu, 02 May 2024 10:00:00 +0000   Thu, 02 May 2024 10:00:41 +0000   NodeStatusUnknown            Kubelet stopped posting node status.
Capacity:
  cpu:                4
  nvidia.com/gpu:     1
Allocatable:
  cpu:                3920m
  nvidia.com/gpu:     0
System Info:
  Kernel Version:  6.1
Events:
  Type     Reason         Age  From             Message
  ----     ------         ---  ----             -------
  Normal   NodeNotReady   5m   node-controller  Node n1 status is now: NodeNotReady
"""


def test_describe_pod():
    """States, conditions and events of `kubectl describe pod`; other lines stay."""
    kind, lines = read("$ kubectl describe pod w-0 -n ml\n" + DESCRIBE_POD)
    found = [line.text for line in lines]
    assert kind == "kubectl-describe"
    for fact in (
        "pod ml/w-0 phase=Failed reason=Evicted message=The node was low on resource: ephemeral-storage.",
        "container ml/w-0/main waiting reason=CrashLoopBackOff exitCode= signal= restarts=5 message=",
        "container ml/w-0/main last-terminated reason=Error exitCode=1 signal= restarts=5 message=",
        "env ml/w-0/main NCCL_DEBUG=INFO",
        "condition pod/ml/w-0 PodScheduled=True reason= message=",
        "event Warning FailedScheduling Pod/ml/w-0: 0/2 nodes are available: 2 Insufficient  nvidia.com/gpu.",
        "      /dev/shm from shm (rw)",
    ):
        assert found.count(fact) == 1, fact
    event = next(line for line in lines if line.text.startswith("event"))
    assert event.line == 1 + 1 + DESCRIBE_POD.split("\n").index(
        next(row for row in DESCRIBE_POD.split("\n") if "x42" in row)
    )
    assert not any("env" in fact and "HF_HOME" in fact for fact in found)


def test_describe_several_nodes():
    """`kubectl describe nodes` prints one after the other."""
    found = texts(DESCRIBE_NODE + "\n\n" + DESCRIBE_NODE.replace("n1", "n2").replace("gpu.present=true", "x=y"))
    for fact in (
        "taint node/n1 nvidia.com/gpu=true:NoSchedule",
        "taint node/n1 node.kubernetes.io/unreachable=:NoExecute",
        "node n1 unschedulable=true",
        "condition node/n1 Ready=Unknown reason=NodeStatusUnknown message=Kubelet stopped posting node status.",
        "node n1 allocatable nvidia.com/gpu=0 capacity nvidia.com/gpu=1 gpu.present=true",
        "node n1 resource cpu allocatable=3920m capacity=4",
        "event Normal NodeNotReady Node/-/n1: Node n1 status is now: NodeNotReady",
        "node n2 allocatable nvidia.com/gpu=0 capacity nvidia.com/gpu=1 gpu.present=unset",
    ):
        assert found.count(fact) == 1, fact


def test_events_table():
    """`kubectl get events -A`: cut by the positions of the header, blanks in cells stay."""
    table = (
        "NAMESPACE   LAST SEEN             TYPE      REASON             OBJECT       MESSAGE\n"
        "ml          2m (x42 over 60m)     Warning   FailedScheduling   pod/w-0      1 node(s) had untolerated taint {nvidia.com/gpu: present}\n"
        "default     5m                    Normal    NodeNotReady       node/n1      Node n1 status is now: NodeNotReady\n"
    )
    kind, lines = read(table)
    assert kind == "kubectl-events"
    assert [line.text for line in lines][1:] == [
        "event Warning FailedScheduling Pod/ml/w-0: 1 node(s) had untolerated taint {nvidia.com/gpu: present}",
        "event Normal NodeNotReady Node/default/n1: Node n1 status is now: NodeNotReady",
    ]


def test_tables_of_pods_nodes_and_daemonsets():
    """Rows become facts; a table pasted without its header is still one of Pods."""
    pods = (
        "w-0   0/1   CrashLoopBackOff   13 (68s ago)   65m\nw-1   1/1   Running   0   5m\nw-2  0/2  Init:0/1  0  9s\n"
    )
    assert texts(pods) == [
        "pod -/w-0 phase=Running reason=CrashLoopBackOff message= ready=0/1 restarts=13 age=65m",
        "pod -/w-1 phase=Running reason= message= ready=1/1 restarts=0 age=5m",
        "pod -/w-2 phase=Pending reason=Init:0/1 message= ready=0/2 restarts=0 age=9s",
    ]
    wide = "NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE   IP       NODE   NOMINATED NODE\nml          w-0    0/1     Evicted   0          7m    <none>   n1     <none>\n"
    assert texts(wide)[1] == "pod ml/w-0 phase=Failed reason=Evicted message= ready=0/1 restarts=0 age=7m node=n1"
    nodes = "NAME   STATUS                     ROLES    AGE   VERSION\nn1     NotReady,SchedulingDisabled   <none>   5d    v1.30\n"
    assert texts(nodes)[1:] == ["condition node/n1 Ready=False reason= message=", "node n1 unschedulable=true"]
    daemonsets = "NAME     DESIRED   CURRENT   READY   UP-TO-DATE   AVAILABLE   NODE SELECTOR   AGE\nplugin   2         2         0       2            0           <none>          5d\n"
    assert texts(daemonsets)[1] == "daemonset -/plugin desired=2 current=2 ready=0 available=0"


def test_tables_of_cronjobs_policies_and_chosen_columns():
    """What is suspended, what the operator says, and how many GPUs a node offers."""
    cronjobs = (
        "NAMESPACE     NAME         SCHEDULE       SUSPEND   ACTIVE   LAST SCHEDULE   AGE\n"
        "kube-system   nccl-smoke   */30 * * * *   True      0        41d             90d\n"
    )
    assert texts(cronjobs)[1] == "cronjob kube-system/nccl-smoke schedule=*/30,*,*,*,* suspend=true last=41d"
    assert texts("NAME             STATUS   AGE\ncluster-policy   ready    2d\n")[1] == (
        "clusterpolicy cluster-policy state=ready"
    )
    assert texts("NAME   GPU\nn1     0\nn2     <none>\n")[1:] == [
        "node n1 allocatable nvidia.com/gpu=0 capacity nvidia.com/gpu=unknown gpu.present=unset",
        "node n2 allocatable nvidia.com/gpu=none capacity nvidia.com/gpu=unknown gpu.present=unset",
    ]


def test_describe_of_a_cluster_policy():
    described = (
        "Name:         cluster-policy\nAPI Version:  nvidia.com/v1\nKind:         ClusterPolicy\nSpec:\n"
        "  Device Plugin:\n    Enabled:     false\n  Driver:\n    Enabled:     true\nStatus:\n  State:  ready\n"
    )
    assert texts(described)[-1] == (
        "clusterpolicy cluster-policy state=ready devicePlugin.enabled=false driver.enabled=true toolkit.enabled="
    )


@pytest.mark.parametrize(
    "message",
    [
        "VcpuLimitExceeded: You have requested more vCPU capacity than your limit of 64: see the quota",
        "0/5 nodes are available: 1 node(s) had volume node affinity conflict",
        'Traceback (most recent call last):\n  File "/app/train.py", line 9, in main\nRuntimeError: no GPUs found!',
    ],
)
def test_what_was_pasted_around_a_manifest_is_not_lost(message):
    """An error with a colon in it is YAML, too, and was swallowed as a field of the object."""
    pod = yaml.safe_dump(POD)
    for text in (f"{message}\n\n{pod}", f"{pod}\n{message}\n", f"{pod}{message}\n{pod}"):
        _, lines = read(text)
        rows = text.splitlines()
        for row in message.splitlines():
            assert [line.line for line in lines if line.text.strip() == row.strip()] == [rows.index(row) + 1]
        facts = [line for line in texts(pod) if "condition pod/" in line]
        assert facts
        assert [line.text for line in lines if "condition pod/" in line.text] == facts * text.count("apiVersion:")


def test_a_yaml_document_that_multiplies_itself_is_cut():
    """Anchors: a hundred kilobytes of aliases would be a hundred million facts."""
    aliases = ", ".join(["*e"] * 3000)
    containers = ", ".join(["*c"] * 3000)
    text = f"e: &e {{name: NCCL_X, value: y}}\nc: &c {{name: a, env: [{aliases}]}}\nkind: Pod\napiVersion: v1\nspec: {{containers: [{containers}]}}\n"
    reader = detect_reader(text.encode())
    with pytest.raises(LimitError, match="stands for more than"):
        deque(reader.read(io.BytesIO(text.encode()), "bomb.yaml"), maxlen=0)


BUNDLE = {
    "bundle/cluster-resources/nodes.json": json.dumps([{key: NODE[key] for key in ("metadata", "spec", "status")}]),
    "bundle/cluster-resources/pods/ml.json": json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [{key: POD[key] for key in ("metadata", "spec", "status")}]}),
    "bundle/cluster-resources/events/ml.json": json.dumps({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [EVENT]}),
    "bundle/cluster-resources/services/ml.json": json.dumps([{"kind": "Service", "apiVersion": "v1", "metadata": {"name": "m", "namespace": "ml"}, "spec": {"clusterIP": "None"}}]),
    "bundle/cluster-resources/pods/logs/ml/w-0/main.log": "NCCL WARN something\n",
    "bundle/version.yaml": "apiVersion: troubleshoot.sh/v1beta2\nkind: SupportBundle\nspec:\n  versionNumber: 0.1\n",
}  # fmt: skip


def test_a_support_bundle_is_read_as_a_whole(tmp_path):
    """Troubleshoot's tar.gz: objects without their kinds, logs beside them, Services joined at the end."""
    file = tmp_path / "support-bundle.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        for name, text in BUNDLE.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    analysis, found, plain = JointAnalysis(), [], []
    for source in open_sources([file]):
        reader = detect_reader(source.head())
        with source.open() as stream:
            if reader is None:
                plain.append(source.name.partition("!")[2])
            else:
                found.extend(line.text for line in reader.read(stream, source.name, joint=analysis))
    assert set(POD_FACTS) | {EVENT_FACT} | set(NODE_FACTS) <= set(found)
    assert plain == ["bundle/cluster-resources/pods/logs/ml/w-0/main.log"]
    assert [line.text for _, line in analysis.finish()] == [
        "service ml/m clusterIP=None publishNotReadyAddresses=false endpoints=?/?"
    ]


def test_a_cluster_info_dump_on_standard_output():
    """`kubectl cluster-info dump`: lists in a row, logs between marks."""
    text = (
        json.dumps({"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [{key: NODE[key] for key in ("metadata", "spec", "status")}]}, indent=4)
        + "\n"
        + json.dumps({"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [EVENT]}, indent=4)
        + "\n==== START logs for container main of pod ml/w-0 ====\nhost:1:2 [0] NCCL INFO hello\n==== END logs for container main of pod ml/w-0 ====\n"
    )  # fmt: skip
    found = texts(text)
    assert found[: len(NODE_FACTS) + 1] == [*NODE_FACTS, EVENT_FACT]
    assert found[-2:] == ["host:1:2 [0] NCCL INFO hello", "==== END logs for container main of pod ml/w-0 ===="]


def test_a_piece_of_a_described_node_says_what_it_offers():
    piece = "Capacity:\n  cpu:             128\n  nvidia.com/gpu:  8\nAllocatable:\n  cpu:             128\n  nvidia.com/gpu:  7\n"
    assert "node - allocatable nvidia.com/gpu=7 capacity nvidia.com/gpu=8 gpu.present=unset" in texts(piece)
