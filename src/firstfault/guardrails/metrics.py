"""Names of the metrics that firstfault's own programs expose. The rules read them, `smoke` writes them.

Each is a gauge. A smoke test is short-lived, so its Pod keeps its port open for a while after the run (`linger`), and
rules that must hold between two runs read kube-state-metrics instead.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "SMOKE_BUS_BANDWIDTH",
    "SMOKE_BUS_BANDWIDTH_FLOOR",
    "SMOKE_LABELS",
    "SMOKE_LAST_RUN",
    "SMOKE_METRICS",
    "SMOKE_RUNGS",
    "SMOKE_RUNG_OK",
    "SMOKE_RUNG_SECONDS",
    "SMOKE_SUCCESS",
    "SMOKE_TRANSPORT_INFO",
    "TRAINING_ITERATION",
    "SmokeMetric",
]


class SmokeMetric(StrEnum):
    """The gauges that `firstfault smoke` writes."""

    SUCCESS = "firstfault_smoke_success"
    RUNG_OK = "firstfault_smoke_rung_ok"
    RUNG_SECONDS = "firstfault_smoke_rung_seconds"
    LAST_RUN = "firstfault_smoke_last_run_timestamp_seconds"
    BUS_BANDWIDTH = "firstfault_smoke_bus_bandwidth_bytes_per_second"
    BUS_BANDWIDTH_FLOOR = "firstfault_smoke_bus_bandwidth_floor_bytes_per_second"
    TRANSPORT_INFO = "firstfault_smoke_transport_info"


SMOKE_SUCCESS = SmokeMetric.SUCCESS
SMOKE_RUNG_OK = SmokeMetric.RUNG_OK
SMOKE_RUNG_SECONDS = SmokeMetric.RUNG_SECONDS
SMOKE_LAST_RUN = SmokeMetric.LAST_RUN
SMOKE_BUS_BANDWIDTH = SmokeMetric.BUS_BANDWIDTH
SMOKE_BUS_BANDWIDTH_FLOOR = SmokeMetric.BUS_BANDWIDTH_FLOOR
SMOKE_TRANSPORT_INFO = SmokeMetric.TRANSPORT_INFO

# Every smoke metric carries these.
SMOKE_LABELS = ("node", "rank")
# The rungs in the order in which they are climbed: values of the label `rung`.
SMOKE_RUNGS = ("name", "tcp", "store", "init", "collective", "bandwidth", "transport")

# name -> (labels beside SMOKE_LABELS, help text)
SMOKE_METRICS: dict[str, tuple[tuple[str, ...], str]] = {
    SMOKE_SUCCESS: ((), "1 when every rung of the last run was climbed, 0 otherwise."),
    SMOKE_RUNG_OK: (("rung", "peer"), "1 when the rung was climbed, 0 when it failed; absent when it was not reached."),
    SMOKE_RUNG_SECONDS: (("rung", "peer"), "Seconds that the rung took."),
    SMOKE_LAST_RUN: ((), "When the last run ended, in seconds since the epoch."),
    SMOKE_BUS_BANDWIDTH: (("instance_type",), "Measured bus bandwidth of all_reduce."),
    SMOKE_BUS_BANDWIDTH_FLOOR: (("instance_type",), "Bus bandwidth below which the run counts as failed."),
    SMOKE_TRANSPORT_INFO: (("chosen", "expected"), "1; the network that NCCL chose and the one it should have chosen."),
}

# A histogram which the training program exposes itself: one observation per iteration, in seconds.
TRAINING_ITERATION = "firstfault_training_iteration_seconds"
