"""The command line. Each verb lives in its own module, imported only when it is called."""

from __future__ import annotations

import os

__all__ = ["main"]

_INTERRUPTED = 130  # what a shell gives to Ctrl-C


def main() -> None:
    """Run the command line and exit. Ctrl-C ends it as quietly while Python still imports it as it does later."""
    try:
        from firstfault.cli.ending import quitting_at_once  # noqa: PLC0415 - imports take a tenth of a second

        with quitting_at_once():
            from firstfault.cli.app import main as run  # noqa: PLC0415 - as above
        run()
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)
