"""`audit --fix`: exact edits that keep every other character, and that are kept only when they help."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.checks.edits import AddArgument, SetArgument
from firstfault.checks.fix import apply_edit
from firstfault.checks.load.yaml_documents import read_yaml
from firstfault.checks.located import dig
from firstfault.checks.yaml_edit import set_yaml
from firstfault.errors import InputError
from support.audit import audit_cli

POD = """\
# the server
apiVersion: v1
kind: Pod        # one only
metadata:
  name: "llm"    # quoted on purpose
spec:
  # what runs
  containers:
    - name: server
      image: vllm/vllm-openai:v0.11.0   # pinned
---
apiVersion: v1
kind: Pod
metadata: {name: second}
spec: {containers: [{name: server, image: vllm/vllm-openai:v0.11.0}]}
"""


def test_fix_shows_the_diff_and_writes_nothing(tmp_path):
    """Without --yes the files stay as they are."""
    (tmp_path / "pod.yaml").write_text(POD)
    code, text = audit_cli(tmp_path, "pod.yaml", "--check", "service-links-enabled", "--fix")
    assert code == 1
    assert "+  enableServiceLinks: false\n" in text
    assert "+spec: {enableServiceLinks: false, containers:" in text
    assert (tmp_path / "pod.yaml").read_text() == POD


def test_fix_with_yes_writes_and_keeps_comments(tmp_path):
    """Every line that is not changed stays, comments and quotes included; the audit passes afterwards."""
    (tmp_path / "pod.yaml").write_text(POD)
    code, _ = audit_cli(tmp_path, "pod.yaml", "--check", "service-links-enabled", "--fix", "--yes")
    assert code == 0
    new = (tmp_path / "pod.yaml").read_text()
    expected = POD.replace("spec:\n  #", "spec:\n  enableServiceLinks: false\n  #").replace(
        "spec: {", "spec: {enableServiceLinks: false, "
    )
    assert new == expected
    assert audit_cli(tmp_path, "pod.yaml", "--check", "service-links-enabled")[0] == 0


def test_suppressed_findings_are_left_alone(tmp_path):
    """What somebody accepted is not changed."""
    text = "# firstfault:ignore=service-links-enabled theirs\n" + POD.partition("\n")[2].partition("---")[0]
    (tmp_path / "pod.yaml").write_text(text)
    audit_cli(tmp_path, "pod.yaml", "--fix", "--yes")
    assert (tmp_path / "pod.yaml").read_text() == text


def test_terraform_is_fixed_where_the_value_is_set(tmp_path):
    """The tfvars line is changed, and add-on and node group get their argument; `terraform fmt` style is kept."""
    (tmp_path / "main.tf").write_text(
        'variable "on" {\n  type    = bool\n  default = true\n\n  validation {\n    condition     = var.on\n'
        '    error_message = "no"\n  }\n}\n\nmodule "eks" {\n  source  = "terraform-aws-modules/eks/aws"\n'
        '  version = "~> 21.0"\n\n  node_security_group_enable_recommended_rules = var.on\n\n  addons = {\n'
        "    vpc-cni = {\n      most_recent = true # newest\n    }\n    eks-node-monitoring-agent = {}\n  }\n"
        '  eks_managed_node_groups = {\n    system = { instance_types = ["m7i.large"] }\n  }\n}\n'
    )
    (tmp_path / "terraform.tfvars").write_text("on = false # for the night\n")
    code, text = audit_cli(tmp_path, ".", "--fix", "--yes")
    assert (tmp_path / "terraform.tfvars").read_text() == "on = true # for the night\n"
    assert (
        "    vpc-cni = {\n      before_compute = true\n      most_recent = true # newest\n"
        in (tmp_path / "main.tf").read_text()
    )
    assert code == 0, text


@pytest.mark.parametrize(
    ("line", "name", "value", "expected"),
    [
        ("  a = false", "a", "true", "  a = true"),
        ('  a   = "x"  # why', "a", "1", "  a   = 1  # why"),
        ("  a = 1,", "a", "2", "  a = 2,"),
    ],
)
def test_set_argument(line, name, value, expected):
    """Alignment, comments and commas stay."""
    edit = SetArgument(path="x.tf", line=2, name=name, value=value)
    assert apply_edit(f"b {{\n{line}\n}}\n", edit) == f"b {{\n{expected}\n}}\n"


@pytest.mark.parametrize("line", ["  a = {", "  b = 1", "  a = [for x in y :"])
def test_set_argument_refuses_what_is_not_one_line(line):
    """A value over several lines, or another argument, is not touched."""
    with pytest.raises(InputError):
        apply_edit(f"b {{\n{line}\n}}\n", SetArgument(path="x.tf", line=2, name="a", value="1"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = {\n  b = 1\n}\n", "x = {\n  a = 1\n  b = 1\n}\n"),
        ("  x = {\n  }\n", "  x = {\n    a = 1\n  }\n"),
        ("x = {}\n", "x = { a = 1 }\n"),
        ("x = { b = 1 }\n", "x = { a = 1, b = 1 }\n"),
        ('resource "a" "b" {\n  b = 1\n}\n', 'resource "a" "b" {\n  a = 1\n  b = 1\n}\n'),
    ],
)
def test_add_argument(text, expected):
    """An argument goes to the top of the block or object, in its indentation."""
    assert apply_edit(text, AddArgument(path="x.tf", line=1, name="a", value="1")) == expected


@pytest.mark.parametrize(
    ("text", "steps", "value", "expected"),
    [
        ("a:\n  b: 1 # c\n", ("a", "b"), 2, "a:\n  b: 2 # c\n"),
        ("a:\n  - x: 1\n    y: 2\n", ("a", 0, "z"), True, "a:\n  - x: 1\n    z: true\n    y: 2\n"),
        ("a:\n  - x:\n      q: 1\n", ("a", 0, "z"), "s", "a:\n  - x:\n      q: 1\n    z: s\n"),
        ("a: {}\n", ("a", "b", "c"), 1, "a: {b: {c: 1}}\n"),
        ("a: 1\n", ("b", "c"), "30s", "b:\n  c: 30s\na: 1\n"),
        ("a: 'x'\n", ("a",), "on", "a: 'on'\n"),
    ],
)
def test_set_yaml(text, steps, value, expected):
    """Block and flow style, in sequences too; a text that YAML would read as something else is quoted."""
    assert set_yaml(text, 1, steps, value) == expected


KEYS = st.sampled_from(["a", "b", "c"])
TREES = st.recursive(
    st.integers(0, 9) | st.just("x"),
    lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=3) | st.lists(inner, min_size=1, max_size=2),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(KEYS, TREES, min_size=1), st.lists(KEYS, min_size=1, max_size=3), st.booleans())
def test_set_yaml_changes_that_value_only(tree, steps, flow):
    """Read back, the document differs in the one value; or the edit was refused."""
    text = yaml.safe_dump(tree, default_flow_style=flow)
    try:
        new = set_yaml(text, 1, tuple(steps), False)
    except InputError:
        return
    [before], [after] = read_yaml(text, "x").documents, read_yaml(new, "x").documents
    assert dig(after, *steps) is False
    holder = after
    for step in steps[:-1]:
        holder = holder[step]
    del holder[steps[-1]]
    old = before
    for step in steps[:-1]:
        old = old.get(step, {}) if isinstance(old, dict) else {}
    if isinstance(old, dict):
        old.pop(steps[-1], None)
    assert prune(after) == prune(before)


def prune(value):
    """Drop mappings that are empty: those that the edit made on its way."""
    if isinstance(value, dict):
        return {key: inner for key, item in value.items() if (inner := prune(item)) not in ({}, None)}
    return [prune(item) for item in value] if isinstance(value, list) else value
