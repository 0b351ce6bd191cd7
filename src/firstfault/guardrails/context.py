"""Values of the placeholders `<<name>>` that templates and rules may use."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from firstfault.guardrails import metrics, xid

if TYPE_CHECKING:
    from firstfault.guardrails.options import Options

__all__ = ["SMOKE_DEADLINE_S", "SMOKE_START_S", "context", "metric_label"]

# From the CronJob's minute until a failed rung is exposed: scheduling and image start, then at most 5 s per rung.
SMOKE_START_S = 60
# When a run counts as failed because it did not end: the Job's activeDeadlineSeconds (300) and a minute.
SMOKE_DEADLINE_S = 360


def metric_label(key: str) -> str:
    """Return the label name under which kube-state-metrics exposes a Kubernetes label key."""
    return "label_" + re.sub(r"[^a-zA-Z0-9_]", "_", key)


def context(options: Options) -> dict[str, str]:
    """Return the value of every placeholder for one cluster."""
    key, value = options.gpu_label
    return {
        **_intervals(options),
        **_smoke(options),
        "namespace": options.namespace,
        "cluster": options.cluster,
        "evidence_bucket": options.evidence_bucket,
        "terraform_role": options.terraform_role,
        "load_balancer_role": options.load_balancer_role,
        "break_glass_role": options.break_glass_role,
        "node_role": options.node_role,
        "gpu_label_key": key,
        "gpu_label_metric": f'{metric_label(key)}="{value}"',
        "gpu_label_value": value,
        # The join: which nodes are GPU nodes. One series per node, whichever replica of kube-state-metrics answers.
        "gpu_nodes": f'max by (node) (kube_node_labels{{{metric_label(key)}="{value}"}})',
        # Whole GPUs, shared GPUs (time slicing with renaming) and MIG slices, as kube-state-metrics spells them.
        "gpu_resources": 'resource=~"nvidia_com_(gpu|gpu_shared|mig_.+)"',
        "gpu_pods": (
            "max by (namespace, pod) "
            '(kube_pod_container_resource_requests{resource=~"nvidia_com_(gpu|gpu_shared|mig_.+)"} > 0)'
        ),
        "node_grace_s": "600",
        "xid_isolate": "|".join(map(str, xid.isolate())),
        "xid_program": "|".join(map(str, xid.program())),
        "xid_silent": "|".join(map(str, xid.silent())),
        "iteration_metric": metrics.TRAINING_ITERATION,
        "iteration_slo": options.iteration_slo_s,
        "exclude_namespaces_json": json.dumps(list(options.exclude_namespaces)),
        "git_repo": options.git_repo or "https://git.example.com/platform/gpu.git",
        "git_path": options.git_path,
        "instance_types_json": json.dumps(list(options.instance_types) or ["g5.xlarge"]),
        "clusterpolicy_actions": "[Deny, Audit]" if options.mode == "enforce" else "[Warn, Audit]",
        "mode": options.mode,
        "rule_labels": "\n".join(f"{name}: {json.dumps(value)}" for name, value in options.rule_labels),
    }


def _intervals(options: Options) -> dict[str, str]:
    """Return the intervals as the rendered files spell them."""
    sources = options.intervals.sources
    values = {f"scrape_{name.replace('-', '_')}": f"{source.scrape_s:g}s" for name, source in sources.items()}
    return {
        **values,
        "collect_dcgm_ms": f"{sources['dcgm-exporter'].collect_s * 1000:.0f}",
        "scrape_timeout_s": f"{options.intervals.scrape_timeout_s:g}",
        "group_wait": f"{options.intervals.group_wait_s:g}s",
        "group_interval": f"{options.intervals.group_interval_s:g}s",
    }


def _smoke(options: Options) -> dict[str, str]:
    """Return what the smoke test's manifest and its rules must agree on."""
    period = options.smoke_period_s
    event = period + SMOKE_START_S
    late = period + SMOKE_DEADLINE_S
    stale = 2 * period + 60
    return {
        "smoke_image": options.smoke_image,
        # Known only where all GPU nodes are of one type; a node's label cannot be read from within a Pod.
        "smoke_instance_type": options.instance_types[0] if len(options.instance_types) == 1 else "",
        "smoke_node_selector": _smoke_nodes(options),
        "smoke_success": metrics.SmokeMetric.SUCCESS,
        "smoke_rung_ok": metrics.SmokeMetric.RUNG_OK,
        "smoke_bandwidth": metrics.SmokeMetric.BUS_BANDWIDTH,
        "smoke_bandwidth_floor": metrics.SmokeMetric.BUS_BANDWIDTH_FLOOR,
        "smoke_transport": metrics.SmokeMetric.TRANSPORT_INFO,
        "smoke_period_s": str(period),
        "smoke_schedule": _schedule(period),
        "smoke_deadline_s": str(SMOKE_DEADLINE_S),
        "smoke_event_s": str(event),
        "smoke_rule_budget_s": str(event + 60),
        "smoke_late_event_s": str(late),
        "smoke_late_budget_s": str(late + 60),
        "smoke_stale_s": str(stale),
        "smoke_missing_budget_s": str(stale + 60),
        "smoke_test_interval": f"{period // 30}s",
        "smoke_test_late": f"{stale + 70}s",
        "smoke_test_intime": f"{stale}s",
    }


def _smoke_nodes(options: Options) -> str:
    """Return labels that a node has only after it has joined, so that no autoscaler buys nodes for the smoke test."""
    key, value = options.gpu_label
    selector = f'{key}: "{value}"'
    if options.profile == "eks-auto":
        # The GPU label is one that Auto Mode can provide; this one it sets itself and refuses to provide.
        selector += '\nkarpenter.sh/initialized: "true"'
    return selector


def _schedule(period: int) -> str:
    """Return a period of whole minutes, at most two hours, as a cron schedule."""
    minutes = period // 60
    return f"*/{minutes} * * * *" if minutes < 60 else f"0 */{minutes // 60} * * *"
