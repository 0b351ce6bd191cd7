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
