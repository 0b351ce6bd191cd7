"""The job as Kubernetes objects: a ConfigMap with the program, a headless Service for the master, one Pod per rank."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.drills.eks.options import EksOptions
    from firstfault.drills.jobs import Process

__all__ = ["APP_LABEL", "RANK_LABEL", "manifests"]

APP_LABEL = "firstfault/drill-job"
RANK_LABEL = "firstfault/rank"
MOUNT = "/firstfault"
# What belongs to this machine and not to the job.
_LOCAL = {"TMPDIR", "PYTHONPATH"}


def manifests(job: Sequence[Process], options: EksOptions, run: str) -> list[tuple[str, dict[str, Any]]]:
    """Return (plural, object) in the order of creation.

    The master's Service publishes addresses of Pods that are not ready: rendezvous comes before readiness.

    Args:
        job: One process per rank, as for the local world.
        options: Image, GPUs, namespace.
        run: Id of the run, unique in the cluster.
    """
    program = next(Path(word) for word in job[0].argv if word.endswith(".py"))
    master = job[0].env["MASTER_ADDR"]
    port = int(job[0].env["MASTER_PORT"])
    config = f"firstfault-{run}"
    found: list[tuple[str, dict[str, Any]]] = [
        (
            "configmaps",
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": config},
                "data": {"program.py": program.read_text(encoding="utf-8")},
            },
        ),
        (
            "services",
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": master},
                "spec": {
                    "clusterIP": "None",
                    "publishNotReadyAddresses": True,
                    "selector": {APP_LABEL: run, RANK_LABEL: "0"},
                    "ports": [{"name": "c10d", "port": port}],
                },
            },
        ),
    ]
    found += [("pods", _pod(process, str(program), options, run, config)) for process in job]
    return found


def _pod(process: Process, program: str, options: EksOptions, run: str, config: str) -> dict[str, Any]:
    command = [f"{MOUNT}/program.py" if word == program else word for word in process.argv]
    command[0] = "python3"
    env = {name: value for name, value in process.env.items() if name not in _LOCAL and os.environ.get(name) != value}
    resources = {"nvidia.com/gpu": str(options.gpus)} if options.gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": process.host, "labels": {APP_LABEL: run, RANK_LABEL: str(process.rank)}},
        "spec": {
            "restartPolicy": "Never",
            "hostname": process.host,
            "enableServiceLinks": False,
            "automountServiceAccountToken": False,
            "activeDeadlineSeconds": int(options.max_duration_s),
            "terminationGracePeriodSeconds": 5,
            "nodeSelector": options.node_selector,
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "labelSelector": {"matchLabels": {APP_LABEL: run}},
                            "topologyKey": "kubernetes.io/hostname",
                        }
                    ]
                }
            },
            "volumes": [
                {"name": "program", "configMap": {"name": config}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            ],
            "containers": [
                {
                    "name": "rank",
                    "image": options.image,
                    "command": command,
                    "env": [{"name": name, "value": value} for name, value in sorted(env.items())],
                    "resources": {"requests": resources, "limits": resources},
                    "volumeMounts": [
                        {"name": "program", "mountPath": MOUNT, "readOnly": True},
                        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - in the container
                    ],
                }
            ],
        },
    }
