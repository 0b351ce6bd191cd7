"""Runs programs as an ordinary user when the tests run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

import firstfault

UID = 64321  # a number that no account of a usual system has


class OrdinaryUser:
    """Python with this package, as somebody without any privilege.

    Attributes:
        home: A folder that the user may write.
        python: An interpreter that the user may execute.
    """

    def __init__(self, home: Path, python: str, identity: dict[str, object]) -> None:
        self.home = home
        self.python = python
        self._identity = identity

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run `python -m firstfault` with these arguments."""
        search = [str(self.home / "src"), sysconfig.get_path("purelib")]
        given = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join(search),
            "FIRSTFAULT_STATE": str(self.home / "state"),
            **env,
        }
        return subprocess.run(
            [self.python, "-m", "firstfault", *arguments],
            env=given,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
            **self._identity,  # type: ignore[call-overload]
        )


@pytest.fixture
def ordinary_user():
    """This very user, or as root one without privileges who gets a copy of the package that he can read."""
    root = os.geteuid() == 0
    identity = {"user": UID, "group": UID, "extra_groups": []} if root else {}
    home = Path(tempfile.mkdtemp(prefix="ordinary-user-"))
    try:
        shutil.copytree(Path(firstfault.__file__).parents[1] / "firstfault", home / "src" / "firstfault")
        if root:
            home.chmod(0o755)
            os.chown(home, UID, UID)
        candidates = [sys.executable, f"/usr/bin/python3.{sys.version_info.minor}", "/usr/bin/python3"]
        for python in candidates:
            try:
                works = subprocess.run(
                    [python, "-c", "import msgspec, yaml"],
                    env={"PYTHONPATH": sysconfig.get_path("purelib")},
                    capture_output=True,
                    check=False,
                    **identity,
                ).returncode
            except OSError:
                continue
            if works == 0:
                yield OrdinaryUser(home, python, identity)
                return
        pytest.skip("no Python interpreter here can be used by an ordinary user together with the installed packages")
    finally:
        shutil.rmtree(home, ignore_errors=True)
