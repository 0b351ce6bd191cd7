"""The command line. Each verb lives in its own module, imported only when it is called."""

from __future__ import annotations

from firstfault.cli.app import main

__all__ = ["main"]
