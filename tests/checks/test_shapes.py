"""Configurations as users write them: no crash, no false alarm; and the examples of this repository."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from firstfault.cli.guard import guard
from support.audit import audit_cli

SHAPES = Path(__file__).parent / "shapes"
EXAMPLES = Path(__file__).parents[2] / "examples"


def findings(folder, *words):
    """Findings of an audit, passes left out: (result, check, path)."""
    code, text = audit_cli(folder, *words, "--format", "json")
    report = json.loads(text)
    assert report["problems"] == []
    return code, {
        (item["result"], item["check"], item["path"]) for item in report["findings"] if item["result"] != "pass"
    }


@pytest.mark.parametrize("path", sorted(SHAPES.iterdir()), ids=lambda path: path.name)
def test_public_shapes_raise_no_alarm(path):
    """A sound configuration in the field's usual form has no finding and nothing unknown."""
    assert findings(SHAPES, path.name) == (0, set())


def test_examples_pass_even_as_everything_there_is(tmp_path):
    """The examples pass, and something of each kind of input was judged."""
    code, text = audit_cli(EXAMPLES.parent, "examples", "--complete", "--format", "json")
    report = json.loads(text)
    assert (code, report["summary"]["failed"], report["summary"]["unknown"]) == (0, 0, 0)
    judged = {item["path"].split("/")[1] for item in report["findings"]}
    assert judged == {"ci", "guard", "manifests", "terraform"}


def test_the_example_of_a_guard_tree_is_what_render_writes(tmp_path):
    """The command of examples/README.md, run today, gives the same files."""
    words = next(
        line for line in (EXAMPLES / "README.md").read_text().splitlines() if "guard render --" in line
    ).split()
    words[words.index("--out") + 1] = str(tmp_path)
    done = CliRunner().invoke(guard, words[2:], standalone_mode=False)
    assert done.exception is None
    assert tree(tmp_path) == tree(EXAMPLES / "guard")


def tree(folder):
    """Contents by relative path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {
                "drill.tfvars": "node_sg_enable_recommended_rules = false\nenable_aux_sg_vpc_allow = false\ndrill_approved = true\n"
            },
            {("fail", "recommended-rules-off", "terraform/drill.tfvars")},
        ),
        (
            {"terraform.tfvars": "node_sg_enable_recommended_rules = false\ndrill_approved = true\n"},
            {
                ("fail", "recommended-rules-off", "terraform/terraform.tfvars"),
                ("fail", "hidden-allow-path", "terraform/network.tf"),
                ("fail", "toggle-not-validated", "terraform/variables.tf"),
            },
        ),
    ],
)
def test_flipping_the_toggles_of_the_example_is_found(tmp_path, change, expected):
    """The seed's accident, in the example: found where the value is set."""
    shutil.copytree(EXAMPLES / "terraform", tmp_path / "terraform")
    for name, text in change.items():
        (tmp_path / "terraform" / name).write_text(text)
    code, found = findings(tmp_path, "terraform")
    assert code == 1
    assert expected <= found


def test_guardrails_close_what_the_examples_leave_open(tmp_path):
    """The examples with all that guard renders are complete, but for what their owner decides.

    That is the pager, and when policies that only report begin to refuse.
    """
    result = CliRunner().invoke(guard, ["render", "--out", str(tmp_path / "guard")], standalone_mode=False)
    assert result.exception is None, result.output
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    _, found = findings(tmp_path, "examples", "guard", "--complete")
    assert {check for _, check, _ in found} <= {"critical-alert-reaches-nobody", "guard-policy-audits-only"}
