"""Alert rules, scrape jobs, monitors, and environment in pieces of YAML."""

from __future__ import annotations

import pytest

from firstfault.scan.readers.monitoring import seconds_of
from scan.reading import read, texts

RULES = """\
groups:
- name: gpu
  rules:
  - alert: Gpu Gone
    # the join keeps CPU nodes quiet
    expr: |
      kube_node_status_allocatable{resource="nvidia_com_gpu"} == 0
      and on(node)
      kube_node_labels{label_nvidia_com_gpu_present="true"} == 1
    for: 2m  # a rolling update
    labels:
      severity: page
    annotations:
      summary: "XID 79: GPU has fallen off the bus"
  - record: job:x:rate5m
    expr: rate(x[5m])
  - expr: 'up{job="vllm"} == 0'
    alert: VLLMDown
    labels: {severity: critical}
"""


def test_an_alert_becomes_one_line_with_its_whole_expression():
    kind, lines = read(RULES)
    assert kind == "monitoring"
    alerts = [line for line in lines if line.text.startswith("alert ")]
    gone = (
        'alert Gpu-Gone for=120 severity=page expr=kube_node_status_allocatable{resource="nvidia_com_gpu"} == 0'
        ' and on(node) kube_node_labels{label_nvidia_com_gpu_present="true"} == 1'
    )
    assert [line.text for line in alerts] == [
        gone,
        'alert VLLMDown for=0 severity=critical expr=up{job="vllm"} == 0',
    ]
    assert alerts[0].line == 4
    assert RULES.encode()[alerts[0].offset :].startswith(b"  - alert: Gpu Gone")


def test_what_annotations_say_is_not_handed_on():
    assert not [text for text in texts(RULES) if "fallen off" in text]


def test_rules_in_a_kubernetes_object_and_beside_other_objects():
    rule = (
        "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: gpu\nspec:\n  "
        + RULES.replace("\n", "\n  ")
    )
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nstatus: {phase: Running}\n---\n"
    assert sum(text.startswith("alert ") for text in texts(rule)) == 2
    kind, lines = read(pod + rule)
    assert kind == "kubernetes"
    assert any(line.text.startswith("pod -/p phase=Running") for line in lines)
    gone = next(line for line in lines if line.text.startswith("alert Gpu-Gone"))
    assert (pod + rule).splitlines()[gone.line - 1].strip() == "- alert: Gpu Gone"


def test_a_job_has_its_own_interval_or_that_of_the_file():
    config = """\
global:
  scrape_interval: 1m
scrape_configs:
  - job_name: node
    scrape_interval: 15s
    static_configs: [{targets: ['a:9100']}]
  - job_name: dcgm
    static_configs:
      - targets: ['a:9400']
"""
    facts = [text for text in texts(config) if text.startswith("scrape ")]
    assert facts == ["scrape node interval=15 own=true", "scrape dcgm interval=60 own=false"]
    piece = "      - job_name: dcgm\n        static_configs: []\n"
    assert "scrape dcgm interval=unknown own=false" in texts(piece)


def test_endpoints_of_monitors():
    monitor = (
        "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata:\n  name: nvidia-dcgm-exporter\n"
        "spec:\n  endpoints:\n  - port: metrics\n    interval: 5m\n"
    )
    assert "monitor ServiceMonitor/nvidia-dcgm-exporter interval=300" in texts(monitor)


def test_environment_in_a_piece_of_a_pod():
    piece = "        env:\n        - name: NCCL_DEBUG\n          value: WARN\n        - name: NCCL_HOSTID\n          valueFrom: {}\n        image: x\n"
    assert [text for text in texts(piece) if text.startswith("env ")] == ["env -/-/- NCCL_DEBUG=WARN"]
    assert "        image: x" in texts(piece)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5m", 300), ("1h30m", 5400), ("30000ms", 30), ("0", 0), ('"15s"', 15), ("soon", None)]
)
def test_durations(text, seconds):
    assert seconds_of(text) == seconds


def test_a_rule_that_never_ends_does_not_swallow_the_source():
    endless = "- alert: X\n  expr: |\n" + "    a\n" * 1000 + "tail: end\n"
    lines = texts(endless)
    assert lines[-1] == "tail: end"
    assert max(map(len, lines)) < 1000


def test_values_say_which_part_of_the_operator_is_off():
    kind, lines = read(
        "dcgmExporter:\n  # metrics\n  enabled: true\n  serviceMonitor:\n    enabled: false\n"
        "devicePlugin:  # by hand\n  version: v0.17.1\n  enabled: false\ntoolkit:\n  enabled: false\n"
    )
    assert kind == "monitoring"
    assert [line.text for line in lines if line.text.startswith("values ")] == [
        "values dcgmExporter.serviceMonitor.enabled=false",
        "values devicePlugin.enabled=false",
    ]


@pytest.mark.parametrize(
    "release",
    [
        "kind: HelmRelease\nspec:\n  values:\n    dcgmExporter:\n      enabled: false\n",
        "kind: HelmChart\nspec:\n  valuesContent: |-\n    dcgmExporter:\n      enabled: false\n",
        "kind: Application\nspec:\n  source:\n    helm:\n      valuesObject: {dcgmExporter: {enabled: false}}\n",
        "kind: ClusterPolicy\nspec:\n  dcgmExporter:\n    enabled: false\n",
    ],
)
def test_a_release_says_which_part_of_the_operator_is_off(release: str):
    _, lines = read(f"apiVersion: example.com/v1\nmetadata: {{name: gpu-operator}}\n{release}")
    assert "values dcgmExporter.enabled=false" in [line.text for line in lines]
