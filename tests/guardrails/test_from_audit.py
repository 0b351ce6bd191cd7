"""From the holes that an audit found to a tree that closes them."""

from __future__ import annotations

import json

import msgspec
import pytest

from firstfault.checks import audit, load_checks
from firstfault.errors import InputError
from firstfault.guardrails import Options, apply_tree, load_guardrails, render

# A cluster whose node group carries the guarded tag, and nothing that guards it; and a training Pod beside it.
BAD = """
module "eks" {
  source             = "terraform-aws-modules/eks/aws"
  version            = "~> 21.0"
  name               = "gpu"
  kubernetes_version = "1.35"

  node_security_group_tags = { "firstfault/guarded" = "true" }
}
"""


def report(paths, **more):
    return audit(paths, complete=True, **more)


def failing(result):
    return {finding.check for finding in result.findings if finding.result == "fail"}


def test_the_tree_rendered_from_the_audit_of_a_bad_example_makes_the_audit_pass(tmp_path):
    """Audit, render what it asks for, audit again: what failed passes, and nothing else fails for it."""
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    (cluster / "main.tf").write_text(BAD)
    first = report([cluster])
    assert "sg-edits-not-denied" in failing(first)
    (tmp_path / "audit.json").write_bytes(msgspec.json.encode(first))

    built = render(Options(cluster="gpu"), audit=tmp_path / "audit.json")
    apply_tree(cluster / "guard", built.files)
    second = report([cluster])

    assert failing(second) == set(), [f.message for f in second.findings if f.result == "fail"]
    assert "sg-edits-not-denied" in {finding.check for finding in second.findings if finding.result == "pass"}


def test_what_is_rendered_has_no_open_holes_itself(tmp_path):
    """The tree is audited like anybody's."""
    features = frozenset({"kyverno", "prometheus-operator", "karpenter", "argocd", "gpu-operator"})
    apply_tree(tmp_path, render(Options(features=features, mode="enforce")).files)

    result = audit([tmp_path])

    assert [f for f in result.findings if f.result != "pass"] == []
    assert result.problems == []


def test_only_what_the_audit_asks_for_is_chosen(tmp_path):
    """And what no guardrail is for is named."""
    findings = [
        {"check": "service-links-enabled", "result": "fail"},
        {"check": "toggle-not-validated", "result": "fail", "suppressed": True},
        {"check": "vllm-context-over-model", "result": "fail"},
        {"check": "gpu-root-volume-unset", "result": "pass"},
    ]
    path = tmp_path / "audit.json"
    path.write_text(json.dumps({"schema": "firstfault.audit/1", "findings": findings, "checks": []}))

    built = render(Options(), audit=path)

    assert [g.id for g in built.guardrails] == ["service-links"]
    assert built.selection.because == {"service-links": ["service-links-enabled"]}
    assert built.selection.by_hand == ["vllm-context-over-model"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "firstfault.audit/1", "findings": [1]}', "[" * 100_000])
def test_what_is_no_report_is_an_input_error(tmp_path, text):
    """Exit 2 and what to do."""
    path = tmp_path / "audit.json"
    path.write_text(text)

    with pytest.raises(InputError, match="what to do"):
        render(Options(), audit=path)


def test_guardrails_name_checks_that_exist():
    """A check that was renamed would silently close nothing."""
    known = set(load_checks())

    for guardrail in load_guardrails(Options(), everything=True):
        assert set(guardrail.checks) <= known, guardrail.id
