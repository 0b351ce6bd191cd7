"""The audit's benchmark measures only what worked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import firstfault

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "audit.py"


def run(*words, cwd):
    command = [sys.executable, str(PROGRAM), "--lines", "1", "--manifests", "10", "--runs", "1", *words]
    environ = {**os.environ, "PYTHONPATH": str(Path(firstfault.__file__).parents[1])}
    return subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)


def test_program_that_fails_is_not_measured(tmp_path):
    broken = tmp_path / "checkov"
    broken.write_text("#!/bin/sh\necho 'no such framework' >&2\nexit 1\n")
    broken.chmod(0o755)
    done = run("--checkov", str(broken), "--output", str(tmp_path / "record.json"), cwd=tmp_path)
    assert done.returncode == 1
    assert "exit status 1: no such framework" in done.stderr
    assert not (tmp_path / "record.json").exists()


def test_folder_that_is_not_there_is_named(tmp_path):
    done = run("--folder", str(tmp_path / "gone"), cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no such folder" in done.stderr
