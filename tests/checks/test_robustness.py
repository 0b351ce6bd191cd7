"""Hostile and damaged inputs: clear errors with a position, nothing hangs, the other files are still audited."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
from pathlib import PurePath

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.checks import exit_code_of, find_check, load_inventory
from firstfault.checks.engine import audit_inventory
from firstfault.checks.load.files import find_files
from firstfault.checks.load.yaml_documents import read_yaml
from firstfault.errors import ExitCode, InputError, LimitError, UsageError
from support.audit import audit_cli

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: llm
  labels: {app: "x", n: 1.5, on: yes, d: 2020-01-01, h: 0x1f, o: 0o17, s: 1_000}
spec:
  containers:
    - name: server
      image: vllm/vllm-openai:v0.11.0
      args: &args ["--a", '--b', |-
        text
      ]
    - name: other
      args: *args
      resources: {limits: {nvidia.com/gpu: "1"}}
"""
GOOD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: vllm/vllm-openai:v1}]\n"


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(POD)), st.text(alphabet="{}[]&*!|>-:,?#'\"% \t\n\x00aé0~", max_size=8))
def test_damaged_yaml_never_raises(position, junk):
    """Whatever is put into a manifest, reading ends with documents or a problem that names a line of it."""
    text = POD[:position] + junk + POD[position:]
    stream = read_yaml(text, "x.yaml")
    if stream.problem is not None:
        assert 1 <= stream.problem_line <= text.count("\n") + 2
        assert str(stream.problem).startswith("x.yaml")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, len(POD)), st.text(alphabet="{}[]&*!|>-:,?#'\"% \t\naé0~", max_size=8))
def test_checks_never_raise_on_damaged_manifests(tmp_path, position, junk):
    """Every check copes with values of any type in any place."""
    (tmp_path / "pod.yaml").write_text(POD[:position] + junk + POD[position:])
    code, text = audit_cli(tmp_path, "pod.yaml", "--format", "json")
    assert code in {0, 1, 2, 3}
    assert json.loads(text)["schema"] == "firstfault.audit/1"


TYPES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", "nvidia.com/gpu", "30s", "${x}"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "spec", "value"]), inner, max_size=3)
    ),
    max_leaves=6,
)
KINDS = [
    ("v1", "Pod"), ("apps/v1", "Deployment"), ("batch/v1", "CronJob"), ("nvidia.com/v1", "ClusterPolicy"),
    ("karpenter.sh/v1", "NodePool"), ("karpenter.k8s.aws/v1", "EC2NodeClass"), ("argoproj.io/v1alpha1", "Application"),
    ("monitoring.coreos.com/v1", "PrometheusRule"), ("kyverno.io/v1", "ClusterPolicy"), ("v1", "Service"), ("v1", "ConfigMap"),
    ("helm.toolkit.fluxcd.io/v2", "HelmRelease"), ("rbac.authorization.k8s.io/v1", "ClusterRole"), ("v1", "List"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
]  # fmt: skip


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(KINDS), TYPES, TYPES)
def test_checks_never_raise_on_objects_of_any_shape(tmp_path, kind, spec, metadata):
    """Every check copes with a spec and metadata that are not what their kind promises."""
    body = {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": spec, "items": spec, "data": spec}
    (tmp_path / "x.json").write_text(json.dumps(body))
    assert audit_cli(tmp_path, "x.json", "--format", "json")[0] in {0, 1, 2, 3}


MODULE = """\
module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 21.0"
  addons = %s
  node_security_group_additional_rules = %s
  eks_managed_node_groups = {
    gpu = {
      instance_types = ["g5.xlarge"]
      block_device_mappings = %s
      update_config = %s
    }
  }
}
resource "aws_security_group_rule" "r" {
  security_group_id = %s
  from_port = %s
}
"""


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                "null",
                "true",
                "5",
                '"x"',
                "[]",
                "{}",
                "[1]",
                "{ a = 1 }",
                "{ a = null }",
                "var.v",
                "{ a = { b = var.v } }",
            ]
        ),
        min_size=6,
        max_size=6,
    )
)
def test_checks_never_raise_on_arguments_of_any_type(tmp_path, values):
    """Every check copes with arguments of a type that the module would refuse."""
    (tmp_path / "main.tf").write_text('variable "v" {}\n' + MODULE % tuple(values))
    assert audit_cli(tmp_path, "main.tf", "--format", "json")[0] in {0, 1, 2, 3}


def test_alias_bombs_are_refused():
    """Nested aliases cost neither memory nor time; the file is refused with a line."""
    lines = ['a0: &a0 ["x","x","x","x","x","x","x","x","x"]']
    lines += [f"a{n}: &a{n} [{','.join(['*a' + str(n - 1)] * 9)}]" for n in range(1, 12)]
    stream = read_yaml("\n".join(lines), "bomb.yaml")
    assert isinstance(stream.problem, LimitError)
    assert "aliases" in str(stream.problem)
    assert stream.problem_line > 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [*a]\n", "refers to the node that contains it"),
        ("a: " + "[" * 200 + "]" * 200 + "\n", "levels deep"),
        ("[" * 5000, "depth"),
        ("? [a]\n: 1\n", "a key must be a scalar"),
        ("a: \x07\n", "control characters"),
        ("a: 'x\n", "x.yaml:"),
    ],
)
def test_what_no_manifest_holds_is_refused(text, message):
    """Cycles, depth, complex keys and control characters are problems with words."""
    problem = read_yaml(text, "x.yaml").problem
    assert isinstance(problem, InputError)
    assert message in str(problem)


def test_unreadable_files_of_every_kind_leave_the_others(tmp_path):
    """Broken HCL, YAML, JSON, binary and links: each has its position, exit code 2, and the good file its finding."""
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "broken.yaml").write_text("ok: 1\nbad: [\n")
    (tmp_path / "broken.json").write_text('{"a": 1,\n "b": }\n')
    (tmp_path / "broken.tf").write_text('locals {\n  a = 1\n}\nresource "a" "b" {\n  x = {\n')
    (tmp_path / "binary.yaml").write_bytes(b"a: 1\n\xff\xfe\x00")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    code, text = audit_cli(tmp_path, ".", "--format", "json", "--check", "service-links-enabled")
    report = json.loads(text)
    assert code == 2
    assert [item["path"] for item in report["findings"]] == ["good.yaml"]
    places = {(item["path"], item["line"]) for item in report["problems"]}
    assert places == {
        ("broken.yaml", 3), ("broken.json", 2), ("broken.tf", 5), ("binary.yaml", 2), ("loop.yaml", 1),
    }  # fmt: skip
    assert all(item["message"].startswith(item["path"]) for item in report["problems"])


def test_a_chart_is_not_taken_for_manifests(tmp_path):
    """Templates of a Helm chart are program text: left out with a hint, not an error."""
    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: c\nversion: 1.0.0\n")
    (chart / "templates" / "deployment.yaml").write_text("{{- if .Values.on }}\napiVersion: apps/v1\n{{- end }}\n")
    inventory = load_inventory([tmp_path])
    assert inventory.problems == []
    assert "helm template" in inventory.notes[0]


def test_files_outside_are_not_read_through_links(tmp_path):
    """Neither `file()` nor the search for files follows a link out of the audited folder."""
    (tmp_path / "secret.txt").write_text("hunter2")
    (tmp_path / "secret.yaml").write_text("password: hunter2\n")
    root = tmp_path / "tf"
    root.mkdir()
    (root / "link.yaml").symlink_to("../secret.yaml")
    (root / "inside.yaml").write_text("a: 1\n")
    (root / "alias.yaml").symlink_to("inside.yaml")
    (root / "link.txt").symlink_to("../secret.txt")
    (root / "main.tf").write_text('resource "t" "t" {\n  v = file("${path.module}/link.txt")\n}\n')
    inventory = load_inventory([root])
    assert "hunter2" not in str([block.body for block in inventory.terraform[0].blocks])
    assert {path.rpartition("/")[2] for path in inventory.texts} == {"main.tf", "inside.yaml", "alias.yaml"}


def test_an_empty_folder_is_an_error_with_a_hint(tmp_path):
    """Nothing that could be audited is not a pass."""
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match="nothing to audit"):
        audit_cli(tmp_path, ".")


def test_the_same_inputs_give_the_same_bytes(tmp_path):
    """Two runs over the same files give the same report."""
    (tmp_path / "good.yaml").write_text(GOOD * 3)
    assert audit_cli(tmp_path, ".", "--format", "json") == audit_cli(tmp_path, ".", "--format", "json")


FOREIGN = {
    "huge-quantity.yaml": GOOD.replace("}]", ", resources: {limits: {nvidia.com/gpu: 1e999999999}}}]"),
    "long-count.yaml": GOOD.replace("}]", f", resources: {{limits: {{nvidia.com/gpu: {'9' * 5000}}}}}}}]"),
    "long-hexadecimal.yaml": GOOD.replace("}]", f", resources: {{limits: {{nvidia.com/gpu: 0x{'f' * 5000}}}}}}}]"),
    "long-number.json": '{"apiVersion": "v1", "kind": "Pod", "spec": ' + "1" * 5000 + "}",
    "plan.json": '{"format_version": "1.2", "resource_changes": [7]}',
    "count.tf": 'resource "aws_instance" "a" {\n  count = 1e999\n}\n',
    **{
        f"{name}.yaml": f"groups:\n- name: a\n  rules:\n  - alert: A\n    expr: '{expression}'\n"
        for name, expression in {
            "parentheses": "(" * 3000 + "up" + ")" * 3000,
            "more-parentheses": "(" * 300_000 + "up" + ")" * 300_000,
            "signs": "-" * 30_000 + "up",
            "sum": "+".join(["a"] * 15_000),
            "power": "^".join(["a"] * 15_000),
            "words": " or ".join(["a"] * 6_000),
            "strings": '(f(")",' * 2_000,
        }.items()
    },
}


@pytest.mark.parametrize("name", FOREIGN)
def test_one_value_of_a_file_does_not_end_the_audit_of_the_others(tmp_path, name):
    """Numbers beyond measure and expressions beyond reading are told of their file; its neighbour is judged."""
    (tmp_path / name).write_text(FOREIGN[name])
    (tmp_path / "neighbour.yaml").write_text(GOOD)
    _, text = audit_cli(tmp_path, ".", "--check", "service-links-enabled", "--format", "json")
    assert ("neighbour.yaml", "fail") in {(item["path"], item["result"]) for item in json.loads(text)["findings"]}


@pytest.mark.parametrize(
    "name", ["long-number.json", "plan.json", "parentheses.yaml", "more-parentheses.yaml", "signs.yaml", "strings.yaml"]
)
def test_what_is_beyond_reading_is_a_problem_of_its_file(tmp_path, name):
    """Exit 2, with the file's name."""
    (tmp_path / name).write_text(FOREIGN[name])
    code, text = audit_cli(tmp_path, name, "--format", "json")
    assert (code, [item["path"] for item in json.loads(text)["problems"]]) == (2, [name])


def test_a_defect_of_a_check_is_a_problem_and_not_the_end(tmp_path, monkeypatch):
    """A check that fails on one file still judges the other, and the run ends with exit 2."""
    check = find_check("service-links-enabled")
    original = check.function

    def failing(inventory):
        if any(item.name == "strange" for item in inventory.kube):
            raise ZeroDivisionError("not foreseen")
        yield from original(inventory)

    monkeypatch.setattr("firstfault.checks.rules.service_links_enabled.check.check", failing)
    (tmp_path / "a.yaml").write_text(GOOD.replace("name: p", "name: strange"))
    (tmp_path / "b.yaml").write_text(GOOD)
    inventory = load_inventory([tmp_path])
    report = audit_inventory(inventory, [check], [], dt.date(2026, 1, 1))
    assert [PurePath(item.path).name for item in report.findings] == ["b.yaml"]
    assert [PurePath(item.path).name for item in report.problems] == ["a.yaml"]
    assert "not foreseen" in report.problems[0].message
    assert exit_code_of(report) == ExitCode.USAGE


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{alert: A, expr: '((((('}", "not PromQL"),
        ("{alert: A, expr: up, for: 5x}", "no duration"),
        ("{alert: A, expr: up, for: 9999999999999999999y}", "no duration"),
        ("{alert: [1], expr: up}", "no text"),
    ],
)
def test_rules_that_prometheus_refuses_are_noted(tmp_path, rule, said):
    """What is passed over is told; a sound rule is not."""
    (tmp_path / "rules.yaml").write_text(f"groups:\n- name: a\n  rules:\n  - {rule}\n  - {{alert: B, expr: up}}\n")
    notes = json.loads(audit_cli(tmp_path, "rules.yaml", "--format", "json")[1])["notes"]
    assert [said in note for note in notes] == [True]
    assert notes[0].startswith("rules.yaml:4: ")


def test_containers_that_are_no_list_are_noted(tmp_path):
    """A Pod that nothing can judge does not look like a sound one."""
    (tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: {a: b}}\n")
    notes = json.loads(audit_cli(tmp_path, "pod.yaml", "--format", "json")[1])["notes"]
    assert notes == ["pod.yaml:4: Pod/p: containers is not a list, so this Pod is not judged"]


def problems_of(folder, *words):
    """Exit code and the problems of an audit: (path, message)."""
    code, text = audit_cli(folder, *words, "--format", "json")
    return code, [(item["path"], item["message"]) for item in json.loads(text)["problems"]]


def write_module(folder, *sources):
    """A Terraform folder that calls each source."""
    folder.mkdir(exist_ok=True)
    calls = (f'module "m{index}" {{\n  source = "{source}"\n}}\n' for index, source in enumerate(sources))
    (folder / "main.tf").write_text("".join(calls) + 'resource "aws_vpc" "v" {}\n')


def test_modules_that_call_themselves_are_a_reported_cycle(tmp_path):
    """One that calls itself twice, and two that call each other, end with the way round."""
    write_module(tmp_path / "own", "./", "./")
    write_module(tmp_path / "a", "../b")
    write_module(tmp_path / "b", "../a")
    code, problems = problems_of(tmp_path, ".")
    assert code == 2
    ways = [message.rpartition(": ")[2] for _, message in problems]
    assert sorted(ways) == ["a -> b -> a", "own -> own", "own -> own"]


def test_a_chain_of_modules_that_doubles_is_bounded(tmp_path):
    """Twelve folders that each call the next twice are 4,095 instances and judged; 19 are too many and said to be."""
    for index in range(19):
        write_module(tmp_path / f"m{index}", *[f"../m{index + 1}"] * 2 * (index < 18))
    code, problems = problems_of(tmp_path, ".", "--check", "recommended-rules-off")
    assert code == 2
    assert "more than 5,000 instances" in problems[0][1]
    for index in range(7):
        shutil.rmtree(tmp_path / f"m{index}")
    assert problems_of(tmp_path, ".", "--check", "recommended-rules-off") == (0, [])


def test_links_that_lead_out_are_told(tmp_path):
    """What a folder shows and the audit does not read is no silence."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out.tf").write_text("")
    (tmp_path / "in" / "main.tf").symlink_to(tmp_path / "out.tf")
    (tmp_path / "in" / "pod.yaml").write_text(GOOD)
    code, problems = problems_of(tmp_path, "in")
    assert (code, [path for path, _ in problems]) == (2, ["in/main.tf"])


def test_links_to_folders_that_lead_out_are_told(tmp_path):
    """Unless their target is named, too. What they lead to within the folder is read where it is."""
    for name in ("in/own", "in/.terraform", "shared"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "pod.yaml").write_text(GOOD)
    for link, target in {"modules": "../shared", "again": "own", "bazel-out": "../shared", "up": ".."}.items():
        (tmp_path / "in" / link).symlink_to(target)
    (tmp_path / "in" / "own" / "deep").symlink_to("../../shared")
    code, problems = problems_of(tmp_path, "in")
    assert (code, [path for path, _ in problems]) == (2, ["in/modules", "in/own/deep", "in/up"])
    assert all("name its target too" in message for _, message in problems)
    (tmp_path / "in" / "up").unlink()
    assert problems_of(tmp_path, "in", "shared") == (1, [])


def test_a_panic_of_the_parser_is_an_expression_that_is_not_read(tmp_path):
    """Its native code ends in something that is no Exception; and an error that it does not document."""
    rules = ["foo offset NaN", "foo offset 9223372036854775807s offset 1y", "foo offset 9223372036854775807"]
    listed = "".join(f"  - {{alert: A{n}, expr: '{rule}'}}\n" for n, rule in enumerate(rules))
    (tmp_path / "rules.yaml").write_text(f"groups:\n- name: a\n  rules:\n{listed}")
    (tmp_path / "pod.yaml").write_text(GOOD)
    code, text = audit_cli(tmp_path, ".", "--format", "json")
    report = json.loads(text)
    assert (code, report["problems"]) == (1, [])
    assert [note.partition(": ")[0] for note in report["notes"]] == ["rules.yaml:4", "rules.yaml:5", "rules.yaml:6"]


@pytest.mark.parametrize("shape", ["file", "object"])
def test_recording_rules_that_cannot_be_read_are_told(tmp_path, shape):
    """What an alert reads through them is not known either."""
    long = "(" * 200 + "up" + ")" * 200
    groups = (
        "groups: [{name: g, rules: [\n"
        "  {record: a, expr: up},\n  {record: b, expr: 'sum('},\n  {record: c},\n"
        f"  {{record: d, expr: '{long}'}}]}}]\n"
    )
    head = "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: r}\nspec: {\n"
    (tmp_path / "rules.yaml").write_text(groups if shape == "file" else f"{head}{groups}}}\n")
    report = json.loads(audit_cli(tmp_path, "rules.yaml", "--format", "json")[1])
    first = 1 if shape == "file" else 5
    assert [note.partition(": the")[0] for note in report["notes"]] == [
        f"rules.yaml:{first + 2}: g/b", f"rules.yaml:{first + 3}: g/c",
    ]  # fmt: skip
    assert [(item["path"], item["line"]) for item in report["problems"]] == [("rules.yaml", first + 4)]


def test_a_folder_that_cannot_be_listed_is_told(tmp_path, monkeypatch):
    """Also to root, from whom no mode of a folder hides it: listing is made to fail."""
    (tmp_path / "closed").mkdir()
    (tmp_path / "pod.yaml").write_text(GOOD)
    scandir = os.scandir

    def refuse(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    problems = []
    assert [path.name for path in find_files([tmp_path], problems)] == ["pod.yaml"]
    assert [PurePath(item.path).name for item in problems] == ["closed"]
    assert "Permission denied" in problems[0].message


@pytest.mark.parametrize("option", ["--output", "--write-baseline"])
def test_an_audited_file_is_not_written_over(tmp_path, option):
    """The report does not replace what it is about; one of an earlier run is written anew."""
    (tmp_path / "pod.yaml").write_text(GOOD)
    with pytest.raises(UsageError, match="is one of the inputs"):
        audit_cli(tmp_path, ".", option, "pod.yaml", "--reason", "tried")
    assert (tmp_path / "pod.yaml").read_text() == GOOD
    for _ in range(2):
        audit_cli(tmp_path, ".", option, "report.json", "--format", "json", "--reason", "tried")
    assert "firstfault" in (tmp_path / "report.json").read_text()


def test_nothing_on_standard_input_is_a_problem(tmp_path):
    """`kustomize build . | firstfault audit -` with a failed first half is not a clean audit."""
    code, problems = problems_of(tmp_path, "-")
    assert (code, [path for path, _ in problems]) == (2, ["stdin"])


def test_an_empty_path_is_not_the_current_folder(tmp_path):
    """An unset shell variable does not choose what is audited."""
    with pytest.raises(click.BadParameter, match="the path is empty"):
        audit_cli(tmp_path, "")
