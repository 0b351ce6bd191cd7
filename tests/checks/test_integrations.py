"""The GitHub Action and the pre-commit hook call the verb as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from firstfault.cli.audit import audit

ROOT = Path(__file__).parents[2]
BAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: vllm/vllm-openai:v1}]\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("inputs", "code"), [({}, 1), ({"FAIL_ON": "critical"}, 0), ({"PATHS": "$(touch ran) ."}, 2)])
def test_action_script(tmp_path, inputs, code):
    """The action's own script, run as a runner would: SARIF and summary are written, the exit code is the audit's."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    script = next(step["run"] for step in action["runs"]["steps"] if step["name"] == "Audit")
    program = tmp_path / "firstfault" / "bin" / "firstfault"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m firstfault "$@"\n')
    program.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    (work / "pod.yaml").write_text(BAD)
    defaults = {"PATHS": ".", "FAIL_ON": "low", "COMPLETE": "false", "BASELINE": "", "SARIF": "out.sarif"}
    environment = os.environ | defaults | inputs
    environment |= {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PYTHONPATH": str(ROOT / "src"),
    }
    result = subprocess.run(["bash", "-e", "-c", script], cwd=work, env=environment, check=False, capture_output=True)
    assert result.returncode == code, result.stderr
    assert not (work / "ran").exists()
    if code != 2:
        assert '"version": "2.1.0"' in (work / "out.sarif").read_text()
        assert "firstfault audit" in (tmp_path / "summary.md").read_text()


def test_hook_calls_the_verb():
    """The hook's entry is the verb, on folders."""
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == f"firstfault {audit.name}"
    assert hook["pass_filenames"] is False
