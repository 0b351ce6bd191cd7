"""Helm values files by themselves: of which chart they are, and what is said where only templates know."""

from __future__ import annotations

import pytest

from firstfault import audit

NO_PLUGIN = "driver: {enabled: true}\ntoolkit: {enabled: true}\ndevicePlugin: {enabled: false}\n"


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return audit([folder])


def failing(report):
    return {finding.check for finding in report.findings if finding.result == "fail"}


@pytest.mark.parametrize(
    "name", ["values.yaml", "values-gpu-operator.yaml", "gpu-operator.values.yaml", "gpu-operator/values-prod.yml"]
)
def test_chart_is_told_by_name_or_keys(tmp_path, name):
    """The check of the operator's device plugin reads its values file."""
    report = write(tmp_path, {name: NO_PLUGIN})
    assert "device-plugin-disabled" in failing(report)
    assert report.notes == []


def test_dependencies_of_an_umbrella_chart(tmp_path):
    """Argo CD's usual pattern: a chart without templates, whose values have a section for each dependency."""
    chart = (
        "apiVersion: v2\nname: gpu\nversion: 0.1.0\ndependencies:\n  - {name: gpu-operator, alias: gpus, version: 1}\n"
    )
    report = write(
        tmp_path, {"Chart.yaml": chart, "values.yaml": "gpus:\n" + "".join(f"  {x}\n" for x in NO_PLUGIN.splitlines())}
    )
    [finding] = [each for each in report.findings if each.check == "device-plugin-disabled"]
    assert (finding.result, finding.path.rpartition("/")[2], finding.line) == ("fail", "values.yaml", 1)


def test_declared_release_speaks_for_its_values_file(tmp_path):
    """The file is a source of the release in Terraform, not a second installation."""
    terraform = (
        'resource "helm_release" "gpu" {\n  name = "gpu"\n  chart = "gpu-operator"\n'
        '  values = [file("${path.module}/gpu-operator-values.yaml")]\n}\n'
    )
    report = write(tmp_path, {"main.tf": terraform, "gpu-operator-values.yaml": NO_PLUGIN})
    found = [each for each in report.findings if each.check == "device-plugin-disabled"]
    assert [each.subject for each in found] == ["helm_release.gpu"]


def test_unknown_chart_is_told_how_to_be_audited(tmp_path):
    """Nothing is guessed from values of a chart that nobody here knows; files that only sound alike are left alone."""
    report = write(tmp_path, {"values.yaml": "image: {tag: 1}\n", "valuestream.yaml": "a: 1\n"})
    [note] = report.notes
    assert "helm template" in note
    assert "/values.yaml" in note


STACK = """\
servingEngineSpec:
  modelSpec:
    - name: a
      modelURL: org/m
      requestGPU: 2
      vllmConfig: {maxModelLen: 5000, tensorParallelSize: 2, extraArgs: [--max-model-len, "3000"]}
    - name: b
      modelURL: org/m
      requestGPU: 4
      raySpec: {headNode: {requestCPU: 1}}
      vllmConfig: {maxModelLen: 5000, tensorParallelSize: 2}
    - {name: c, modelURL: org/m, env: [{name: VLLM_ALLOW_LONG_MAX_MODEL_LEN, value: "1"}], vllmConfig: {maxModelLen: 9000}}
"""
MODEL = '{"_name_or_path": "org/m", "hidden_size": 64, "max_position_embeddings": 4096, "num_attention_heads": 4}'


def judged(report, check):
    found = (each for each in report.findings if each.check == check)
    return sorted((each.subject.rpartition("#")[2], each.result, each.line) for each in found)


def test_what_values_tell_vllm_is_judged(tmp_path):
    """An option behind the chart's own holds; processes of Ray may be in other Pods; a longer context may be allowed."""
    report = write(tmp_path, {"values-vllm-stack.yaml": STACK, "config.json": MODEL})
    assert judged(report, "vllm-context-over-model") == [("a", "pass", 6), ("b", "fail", 11)]
    assert judged(report, "vllm-parallelism-mismatch") == [("a", "pass", 6)]


def test_command_of_the_example_chart_is_judged(tmp_path):
    values = "image:\n  command: [vllm, serve, org/m, --max-model-len, '5000', --tensor-parallel-size=2]\n"
    gpus = "resources: {limits: {nvidia.com/gpu: 1}}\n"
    report = write(tmp_path, {"vllm/values.yaml": values + gpus, "config.json": MODEL})
    assert [each[1:] for each in judged(report, "vllm-context-over-model")] == [("fail", 2)]
    assert [each[1:] for each in judged(report, "vllm-parallelism-mismatch")] == [("fail", 2)]


def test_values_that_are_not_all_there_are_unknown(tmp_path):
    """Of a release in Terraform whose length is a variable, and of a chart called vllm that is another."""
    terraform = (
        'variable "length" {}\nresource "helm_release" "llm" {\n  name = "llm"\n  chart = "vllm-stack"\n'
        '  values = [yamlencode({ servingEngineSpec = { modelSpec = [{ name = "a", modelURL = "org/m",\n'
        "    vllmConfig = { maxModelLen = var.length } }] } })]\n}\n"
    )
    report = write(tmp_path, {"main.tf": terraform, "config.json": MODEL})
    assert [each[1] for each in judged(report, "vllm-context-over-model")] == ["unknown"]
    report = write(tmp_path / "other", {"vllm/values.yaml": "model: org/m\n"})
    assert [each[1] for each in judged(report, "vllm-context-over-model")] == ["unknown"]


def test_release_in_terraform_is_judged_where_it_stands(tmp_path):
    terraform = (
        'resource "helm_release" "llm" {\n  name = "llm"\n  chart = "vllm-stack"\n  values = [yamlencode({\n'
        '    servingEngineSpec = { modelSpec = [{ name = "a", modelURL = "org/m", vllmConfig = { maxModelLen = 5000 } }] }\n'
        "  })]\n}\n"
    )
    report = write(tmp_path, {"main.tf": terraform, "config.json": MODEL})
    assert judged(report, "vllm-context-over-model") == [("a", "fail", 1)]
