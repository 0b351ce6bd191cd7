"""The rendered rules in the real Prometheus, the rendered routes in the real Alertmanager, on loopback: an alert arrives."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml

from firstfault.guardrails import Intervals, Options, apply_tree, render
from support.ports import closed_port

PROMETHEUS = shutil.which("prometheus")
ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
pytestmark = [
    pytest.mark.prometheus,
    pytest.mark.slow,
    pytest.mark.skipif(
        PROMETHEUS is None or ALERTMANAGER is None,
        reason="prometheus or alertmanager is not installed (Debian packages prometheus, prometheus-alertmanager)",
    ),
]
HEALTHY = """
kube_node_labels{node="gpu-1",label_nvidia_com_gpu_present="true"} 1
kube_node_labels{node="cpu-1"} 1
kube_node_status_allocatable{node="gpu-1",resource="nvidia_com_gpu"} 8
kube_node_status_allocatable{node="cpu-1",resource="nvidia_com_gpu"} 0
DCGM_FI_DEV_XID_ERRORS{Hostname="gpu-1",UUID="GPU-a",gpu="0"} 0
"""
BROKEN = HEALTHY.replace('"gpu-1",resource="nvidia_com_gpu"} 8', '"gpu-1",resource="nvidia_com_gpu"} 0').replace(
    'gpu="0"} 0', 'gpu="0"} 79'
)
# The deadline is only there to end a test that fails: it asserts arrival, not speed.
DEADLINE_S = 120


class Site:
    """A fake exporter and the receiver of the pager, in one small server on loopback."""

    def __init__(self):
        self.metrics = HEALTHY
        self.arrived = []
        self.news = threading.Condition()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(site.metrics.encode())

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with site.news:
                    site.arrived += [(self.path, alert) for alert in body["alerts"]]
                    site.news.notify_all()
                self.answer(b"")

            def answer(self, body):
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def wait_for(self, *names):
        """Block until alerts of all these names have arrived; return them by name."""

        def seen():
            return {alert["labels"]["alertname"]: (path, alert) for path, alert in self.arrived}

        with self.news:
            assert self.news.wait_for(lambda: set(names) <= set(seen()), DEADLINE_S), sorted(seen())
            return seen()


@contextlib.contextmanager
def running(command, ready, log):
    """Run a program until the block ends; wait until its page says that it is ready."""
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            deadline = time.monotonic() + DEADLINE_S
            while True:
                assert process.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < deadline, log.read_text()[-2000:]
                with contextlib.suppress(OSError), urllib.request.urlopen(ready, timeout=2):
                    break
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


@pytest.fixture
def site():
    site = Site()
    yield site
    site.server.shutdown()
    site.server.server_close()


def test_a_fault_reaches_the_pager_by_its_route(site, tmp_path):
    """Allocatable falls to 0 and an XID 79 appears; the CPU node with the same 0 stays silent, the heartbeat beats."""
    quick = Intervals(evaluation_s=1, group_interval_s=1)
    tree = tmp_path / "tree"
    apply_tree(tree, render(Options(intervals=quick)).files)
    routes = yaml.safe_load((tree / "prometheus" / "alertmanager.yaml").read_text())
    for receiver in routes["receivers"]:
        for hook in receiver.get("webhook_configs", []):
            hook["url"] = f"http://127.0.0.1:{site.port}/{receiver['name']}"
    (tmp_path / "alertmanager.yaml").write_text(yaml.safe_dump(routes))
    notify, query = closed_port(), closed_port()
    scrape = {"job_name": "fake", "scrape_interval": "1s", "static_configs": [{"targets": [f"127.0.0.1:{site.port}"]}]}
    config = {
        "global": {"evaluation_interval": "1s"},
        "rule_files": [str(tree / "prometheus" / "rules" / "*.yaml")],
        "scrape_configs": [scrape],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{notify}"]}]}]},
    }
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(config))
    alertmanager = [
        ALERTMANAGER, f"--config.file={tmp_path}/alertmanager.yaml", f"--storage.path={tmp_path}/am",
        f"--web.listen-address=127.0.0.1:{notify}", "--cluster.listen-address=",
    ]  # fmt: skip
    prometheus = [
        PROMETHEUS, f"--config.file={tmp_path}/prometheus.yaml", f"--storage.tsdb.path={tmp_path}/tsdb",
        f"--web.listen-address=127.0.0.1:{query}",
        "--rules.alert.resend-delay=1s",  # the first send may come before the Alertmanager is discovered
    ]  # fmt: skip

    with (
        running(alertmanager, f"http://127.0.0.1:{notify}/-/ready", tmp_path / "am.log"),
        running(prometheus, f"http://127.0.0.1:{query}/-/ready", tmp_path / "p.log"),
    ):
        site.wait_for("FirstFaultWatchdog")
        assert "FirstFaultGPUAllocatableZero" not in {alert["labels"]["alertname"] for _, alert in site.arrived}
        site.metrics = BROKEN
        arrived = site.wait_for("FirstFaultGPUAllocatableZero", "FirstFaultXIDIsolate")

    path, alert = arrived["FirstFaultGPUAllocatableZero"]
    assert path == "/pager"
    assert alert["labels"]["node"] == "gpu-1"
    assert arrived["FirstFaultXIDIsolate"][1]["labels"]["cause"] == "driver.xid.79"
    assert arrived["FirstFaultWatchdog"][0] == "/dead-man"
    zero = [a for _, a in site.arrived if a["labels"]["alertname"] == "FirstFaultGPUAllocatableZero"]
    assert {a["labels"]["node"] for a in zero} == {"gpu-1"}
