"""What holds for every test: the processes that it starts find the package that it tests, installed or not."""

from __future__ import annotations

import os
from pathlib import Path

import firstfault


def pytest_configure() -> None:
    """Hand the place of the package to child processes; `pythonpath` of pytest reaches only its own."""
    paths = [str(Path(firstfault.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
