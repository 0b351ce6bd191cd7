"""One small, well-formed source for each reader: where fuzzing begins, and what `tools/fuzz-readers` mutates."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import tarfile
import zipfile
from pathlib import Path

import zstandard

FIXTURES = Path(__file__).parent / "fixtures"
LOG = b"host:1:2 [0] NCCL INFO Init START\nstep 1\n"

POD = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w-0", "namespace": "ml"},
    "spec": {"nodeName": "n1", "containers": [{"name": "main", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]}]},
    "status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False", "reason": "X", "message": "m"}],
               "containerStatuses": [{"name": "main", "restartCount": 1, "state": {"terminated": {"exitCode": 1, "message": "a\nb"}}}]},
}  # fmt: skip
EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "type": "Warning",
    "reason": "Failed",
    "message": "m",
    "involvedObject": {"kind": "Pod", "name": "w-0"},
    "firstTimestamp": "2024-05-01T12:00:00Z",
}
NODE = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "n1"},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"nvidia.com/gpu": "0"}, "capacity": {"nvidia.com/gpu": "1"}, "nodeInfo": {}},
}
SERVICE = {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}, "spec": {"clusterIP": "None"}}
GROUPS = {
    "SecurityGroups": [
        {
            "GroupId": "sg-1",
            "GroupName": "n",
            "IpPermissions": [
                {
                    "IpProtocol": "tcp",
                    "FromPort": 1,
                    "ToPort": 2,
                    "IpRanges": [{"CidrIp": "10.0.0.0/8"}],
                    "UserIdGroupPairs": [{"GroupId": "sg-1"}],
                }
            ],
            "IpPermissionsEgress": [],
        }
    ]
}
PLAN = {
    "terraform_version": "1.11",
    "variables": {"x": {"value": True}},
    "resource_changes": [
        {
            "address": "a.b",
            "type": "aws_security_group_rule",
            "change": {"actions": ["delete"], "before": {"protocol": "-1", "self": True}},
        }
    ],
    "resource_drift": [],
}
ENTRY = {
    "record_id": 1,
    "pg_id": 0,
    "process_group": ("0", "default_pg"),
    "collective_seq_id": 1,
    "p2p_seq_id": 0,
    "is_p2p": False,
    "profiling_name": "nccl:all_reduce",
    "input_sizes": [[4]],
    "input_dtypes": ["Float"],
    "state": "started",
    "time_created_ns": 1714564800000000000,
    "frames": [{"name": "f", "filename": "/a.py", "line": 1}],
}
DUMP = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "x", "ranks": "[0, 1]"}},
    "pg_status": {"0": {"last_enqueued_collective": 1}},
    "entries": [ENTRY],
}
LOKI = {
    "status": "success",
    "data": {"resultType": "streams", "result": [{"stream": {"pod": "p"}, "values": [["1714564802000000000", "x"]]}]},
}
ERROR = {
    "message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "Traceback\n x", "timestamp": "1714564800"}}
}
CONFIG = {
    "model_type": "llama",
    "architectures": ["A"],
    "max_position_embeddings": 8192,
    "num_hidden_layers": 2,
    "rope_scaling": {"type": "yarn", "factor": 2},
}


def _tar(mode: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name in ("a.log", "b/c.log"):
            info = tarfile.TarInfo(name)
            info.size = len(LOG)
            tar.addfile(info, io.BytesIO(LOG))
    return buffer.getvalue()


def _zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.log", LOG)
        archive.writestr("b.tar", _tar("w"))
    return buffer.getvalue()


SEEDS: dict[str, bytes] = {
    "cri": b"2024-05-01T12:00:00.5Z stderr F text\n2024-05-01T12:00:00.5Z stdout P piece\n",
    "docker": b'{"log":"a \\u003c b\\n","stream":"stderr","time":"2024-05-01T12:00:00.5Z"}\n',
    "json-lines": b'{"level":"ERROR","time":"2024-05-01T12:00:00Z","message":"m","error":"e","x":{"y":1}}\nplain\n{\n "msg": "m"\n}\n',
    "journal-json": b'{"__REALTIME_TIMESTAMP":"1714564801000000","MESSAGE":"m","_PID":"1","SYSLOG_IDENTIFIER":"k"}\n',
    "journal-export": b"__CURSOR=s\n__REALTIME_TIMESTAMP=1714564801000000\nMESSAGE\n\x03\0\0\0\0\0\0\0abc\n\nMESSAGE=x\n",
    "kubernetes": json.dumps({"apiVersion": "v1", "items": [POD, EVENT, NODE, SERVICE], "kind": "List"}, indent=1).encode(),
    "yaml": b"apiVersion: v1\nkind: Pod\nmetadata:\n  name: w-0\nstatus:\n  phase: Failed\n  conditions:\n  - type: Ready\n    status: 'False'\n---\nkind: Event\napiVersion: v1\nmessage: |\n  a\n  b\n",
    "csv": b'@timestamp,@logStream,@message\r\n2024-05-01 12:00:02.000,w-0,"ValueError: ""x"""\r\n2024-05-01 12:00:01.000,w-0,"Traceback\n  File"\r\n',
    "security-groups": json.dumps(GROUPS).encode(),
    "terraform-json": json.dumps(PLAN).encode(),
    "terraform-text": b"Terraform will perform the following actions:\n  # a.b will be destroyed\nPlan: 0 to add, 0 to change, 1 to destroy.\n",
    "flight-json": json.dumps(DUMP).encode(),
    "flight-pickle": pickle.dumps(DUMP, protocol=2),
    "flight-real": (FIXTURES / "flight_recorder" / "type_rank_0").read_bytes(),
    "ras-json": (FIXTURES / "nccl_ras" / "ras_stopped.json").read_bytes(),
    "ras-text": (FIXTURES / "nccl_ras" / "ras_stopped.txt").read_bytes(),
    "torchrun-error": json.dumps(ERROR).encode(),
    "elastic": json.dumps({"hits": {"hits": [{"_source": {"@timestamp": "2024-05-01T12:00:00Z", "message": "m"}}]}}).encode(),
    "loki": json.dumps(LOKI).encode(),
    "monitoring": b"groups:\n- name: g\n  rules:\n  - alert: X\n    expr: |\n      up == 0\n    for: 5m\n    labels: {severity: page}\nscrape_configs:\n- job_name: dcgm\n  scrape_interval: 1m\nenv:\n- name: NCCL_DEBUG\n  value: WARN\n",
    "model-config": json.dumps(CONFIG).encode(),
    "nvidia-smi-q": b"==============NVSMI LOG==============\nGPU 00000000:07:00.0\n    Remapped Rows\n        Pending : Yes\n    ECC Errors\n        Volatile\n            DRAM Uncorrectable : 3\n",
    "dcgmi": b"#Entity    GPUTL   XIDER\nID\nGPU 0      98      0\nGPU 1      0       120\nGPUs:\n    gpuId 0:\n        U U D X\n",
    "describe": b"Name:   w-0\nNamespace:  ml\nStatus:  Failed\nContainers:\n  main:\n    State:  Waiting\n      Reason:  X\nConditions:\n  Type  Status\n  Ready  False\nCapacity:\n  nvidia.com/gpu:  1\nEvents:\n  Type     Reason  Age   From      Message\n  Warning  Failed  5m    kubelet   m\n",
    "events": b"LAST SEEN   TYPE      REASON   OBJECT    MESSAGE\n5m          Warning   Failed   pod/w-0   m\n",
    "pods": b"NAME   READY   STATUS             RESTARTS   AGE\nw-0    0/1     CrashLoopBackOff   13         65m\n",
    "gzip": gzip.compress(LOG * 50),
    "bz2": bz2.compress(LOG * 50),
    "xz": lzma.compress(LOG * 50),
    "zstd": zstandard.ZstdCompressor().compress(LOG * 50),
    "tar": _tar("w"),
    "tar.gz": _tar("w:gz"),
    "zip": _zip(),
    "utf-16": "Init COMPLETE\n".encode("utf-16") * 3,
}  # fmt: skip
