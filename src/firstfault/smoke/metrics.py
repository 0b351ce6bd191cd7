"""The result as Prometheus metrics: a text file for node-exporter, a push gateway, or a port of our own.

Names and labels are those that the rules of `firstfault guard` read.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from firstfault.errors import InputError
from firstfault.guardrails import SMOKE_METRICS, SmokeMetric
from firstfault.model.files import replace_file

if TYPE_CHECKING:
    from firstfault.model.smoke import SmokeReport

__all__ = ["exposition", "push", "serve", "write_textfile"]

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def exposition(report: SmokeReport, *, node: str, instance_type: str = "", now: float | None = None) -> str:
    """Return the report in Prometheus' text format.

    Args:
        report: What one rank measured.
        node: Name of the node, as the other metrics of the cluster call it.
        instance_type: For the label of the bandwidth metrics.
        now: Seconds since the epoch; None: the clock.
    """
    base = {"node": node, "rank": str(report.rank)}
    instance = {"instance_type": instance_type}
    samples: dict[SmokeMetric, list[tuple[dict[str, str], float]]] = {
        SmokeMetric.SUCCESS: [({}, float(report.status == "ok"))],
        SmokeMetric.LAST_RUN: [({}, time.time() if now is None else now)],
        SmokeMetric.RUNG_OK: [
            ({"rung": rung.rung, "peer": rung.peer}, float(rung.ok)) for rung in report.rungs if rung.ok is not None
        ],
        SmokeMetric.RUNG_SECONDS: [({"rung": rung.rung, "peer": rung.peer}, rung.seconds) for rung in report.rungs],
        SmokeMetric.BUS_BANDWIDTH: [(instance, report.bus_bandwidth)] if report.bus_bandwidth is not None else [],
        SmokeMetric.BUS_BANDWIDTH_FLOOR: [(instance, report.bandwidth_floor)] if report.bandwidth_floor else [],
        SmokeMetric.TRANSPORT_INFO: [({"chosen": report.chosen or "", "expected": report.expected or ""}, 1.0)]
        if report.chosen
        else [],
    }
    lines = []
    for metric, found in samples.items():
        if not found:
            continue
        lines += [f"# HELP {metric} {SMOKE_METRICS[metric][1]}", f"# TYPE {metric} gauge"]
        for labels, value in found:
            text = ",".join(f'{name}="{_escape(each)}"' for name, each in {**base, **labels}.items())
            lines.append(f"{metric}{{{text}}} {value:g}" if value < 1e6 else f"{metric}{{{text}}} {value:.0f}")
    return "\n".join(lines) + "\n"


def write_textfile(text: str, path: Path) -> None:
    """Write the metrics where node-exporter's textfile collector reads them; the file appears whole or not at all.

    Raises:
        InputError: It cannot be written.
    """
    try:
        replace_file(path, text)
    except OSError as error:
        raise InputError(f"{path}: the metrics cannot be written: {error.strerror}") from error


def push(text: str, url: str, *, job: str, instance: str) -> None:
    """Push the metrics to a Prometheus push gateway.

    Raises:
        InputError: It refuses or does not answer.
    """
    target = f"{url.rstrip('/')}/metrics/job/{job}/instance/{instance}"
    if not target.startswith(("http://", "https://")):
        raise InputError(f"{url}: not an http or https address of a push gateway")
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        target, data=text.encode(), method="PUT", headers={"Content-Type": _CONTENT_TYPE}
    )
    try:
        with urllib.request.urlopen(request, timeout=5):  # noqa: S310
            pass
    except (OSError, urllib.error.URLError) as error:
        raise InputError(f"{url}: the push gateway does not take the metrics: {error}") from error


def serve(text: str, port: int, seconds: float) -> None:
    """Answer Prometheus' scrapes on a port for a while, then return: the Pod's metrics must outlive its run.

    Raises:
        InputError: The port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", _CONTENT_TYPE)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Scrapes are not worth a line."""

    try:
        server = ThreadingHTTPServer(("", port), Handler)
    except OSError as error:
        raise InputError(f"port {port}: the metrics cannot be served there: {error.strerror}") from error
    server.timeout = 0.5
    deadline = time.monotonic() + seconds
    with server:
        while time.monotonic() < deadline:
            server.handle_request()
