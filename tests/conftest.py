"""What holds for every test: its processes find the package that it tests, installed or not, and can be interrupted."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import firstfault


def pytest_configure() -> None:
    """Hand the place of the package to child processes; `pythonpath` of pytest reaches only its own."""
    paths = [str(Path(firstfault.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    # Started by nohup or in the background of a shell, a program ignores these, and so do its children; the tests of
    # what a signal does would wait in vain.
    if threading.current_thread() is threading.main_thread():
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
            if signal.getsignal(number) == signal.SIG_IGN:
                signal.signal(number, usual)
