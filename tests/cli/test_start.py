"""The first moments of the command line: Ctrl-C during imports, and descriptors that the caller had closed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

# Gets Ctrl-C from itself in the midst of an import: no busy machine makes that later.
INTERRUPTED_IN = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
_, module, *sys.argv[1:] = sys.argv
sys.meta_path.insert(0, Interrupting())
from firstfault.cli import main
main()
"""


@pytest.mark.parametrize(
    "module", ["firstfault.cli.ending", "firstfault.cli.app", "click", "firstfault.cli.explain", "firstfault.catalogue"]
)
def test_ctrl_c_during_imports_is_quiet(module):
    """Of the command line, of a verb, and of what a verb needs when it is called."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_IN, module, "explain"], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (128 + signal.SIGINT, b"", b"")


# Writes down what a program that the command line starts finds at its standard descriptors.
LOOKING = """
import subprocess, sys
from firstfault.cli.app import _fill_closed_streams
_fill_closed_streams()
look = "import os, sys; print([os.path.realpath(f'/proc/self/fd/{n}') for n in (0, 1, 2)], file=open(sys.argv[1], 'w'))"
sys.exit(subprocess.run([sys.executable, "-c", look, sys.argv[1]]).returncode)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_programs_get_the_null_device_for_closed_descriptors(tmp_path, closed):
    """Without it their next file would be their standard output."""
    found = tmp_path / "found"
    script = f'exec "$0" -c "$1" "$2" {closed}'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, LOOKING, str(found)], stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 0
    streams = eval(found.read_text())
    for descriptor, word in enumerate(["<&-", ">&-", "2>&-"]):
        if word in closed.split():
            assert streams[descriptor] == "/dev/null"
