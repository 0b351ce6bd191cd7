"""Lets a process end with the one that started it. Linux only when called.

It imports nothing that takes time: the first process of a drill's world uses it, as do the children that read files.
"""

from __future__ import annotations

import ctypes
import os

__all__ = ["die_with_parent"]

_PR_SET_PDEATHSIG = 1  # include/uapi/linux/prctl.h


def die_with_parent(signal_number: int) -> None:
    """Ask the kernel for a signal when the thread that started this process ends. Cleared by set-uid programs.

    Raises:
        OSError: The kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal_number), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_PDEATHSIG): {os.strerror(number)}")
