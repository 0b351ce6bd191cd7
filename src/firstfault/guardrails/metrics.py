"""Names of the metrics that firstfault's own programs expose. The rules read them, `smoke` writes them.

Each is a gauge. A smoke test is short-lived, so its Pod keeps its port open for a while after the run (`linger`), and
rules that must hold between two runs read kube-state-metrics instead.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = [
    "SMOKE_METRICS",
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


# name -> (labels beside node and rank, which all carry; help text)
SMOKE_METRICS: dict[SmokeMetric, tuple[tuple[str, ...], str]] = {
    SmokeMetric.SUCCESS: ((), "1 when every rung of the last run was climbed, 0 otherwise."),
    SmokeMetric.RUNG_OK: (
        ("rung", "peer"),
        "1 when the rung was climbed, 0 when it failed; absent when it was not reached.",
    ),
    SmokeMetric.RUNG_SECONDS: (("rung", "peer"), "Seconds that the rung took."),
    SmokeMetric.LAST_RUN: ((), "When the last run ended, in seconds since the epoch."),
    SmokeMetric.BUS_BANDWIDTH: (("instance_type",), "Measured bus bandwidth of all_reduce."),
    SmokeMetric.BUS_BANDWIDTH_FLOOR: (("instance_type",), "Bus bandwidth below which the run counts as failed."),
    SmokeMetric.TRANSPORT_INFO: (
        ("chosen", "expected"),
        "1; the network that NCCL chose and the one it should have chosen.",
    ),
}

# A histogram which the training program exposes itself: one observation per iteration, in seconds.
TRAINING_ITERATION = "firstfault_training_iteration_seconds"
