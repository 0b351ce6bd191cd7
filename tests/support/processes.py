"""Looks at processes that a test did not start itself."""

from __future__ import annotations

from pathlib import Path


def is_running(process: int) -> bool:
    """Whether it exists and is more than an entry that its new parent has not taken note of yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
