"""Runs one Pod on a very small cluster, and collects of it what `firstfault triage --live` would collect.

FIRSTFAULT_CLUSTER (JSON) says what is different from a healthy cluster: `allocatable`, `taints`, `command`,
`restartPolicy`. Ends with 0 when the Pod succeeded.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from firstfault.collect import gather_live
from firstfault.drills.minicluster import MiniCluster, healthy_node

GOOD = [sys.executable, "-c", "print('trained 10 steps')"]

different = json.loads(os.environ.get("FIRSTFAULT_CLUSTER", "{}"))
node = healthy_node()
node["status"]["allocatable"] |= different.get("allocatable", {})
node["spec"]["taints"] += different.get("taints", [])
command = [sys.executable, *different["command"]] if "command" in different else GOOD
pod = {
    "name": "trainer-0",
    "command": command,
    "limits": {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "60Gi", "nvidia.com/gpu": "1"},
    "restartPolicy": different.get("restartPolicy", "Never"),
}
with MiniCluster(node, pod) as cluster, tempfile.TemporaryDirectory() as folder:
    phase = cluster.run()
    config = Path(folder) / "kubeconfig"
    config.write_text(json.dumps(cluster.kubeconfig()))
    os.environ["KUBECONFIG"] = str(config)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        os.environ.pop(name, None)
    gather_live(Path(os.environ["FIRSTFAULT_LOGS"]), cloud=False)
print(f"pod {pod['name']}: {phase}", flush=True)
sys.exit(0 if phase == "Succeeded" else 1)
