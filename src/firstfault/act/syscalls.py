"""System calls that Python before 3.12 does not offer: namespaces, mounts, capabilities, prctl. Linux only when called.

Used by the world's first process and by nothing else: the tool itself never changes its own namespaces.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "CAP_NET_ADMIN",
    "CAP_SYS_ADMIN",
    "CLONE_NEWIPC",
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "CLONE_NEWPID",
    "CLONE_NEWUSER",
    "CLONE_NEWUTS",
    "MS_BIND",
    "MS_NODEV",
    "MS_NOEXEC",
    "MS_NOSUID",
    "MS_PRIVATE",
    "MS_REC",
    "drop_capabilities",
    "effective_capabilities",
    "mount",
    "setns",
    "unmount",
    "unshare",
]

# include/uapi/linux/sched.h
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
# include/uapi/linux/mount.h
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
# include/uapi/linux/capability.h
CAP_NET_ADMIN = 12
CAP_SYS_ADMIN = 21
_CAPABILITY_VERSION_3 = 0x20080522
# include/uapi/linux/prctl.h
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move the calling process into new namespaces.

    Raises:
        OSError: The kernel or a sandbox refuses; EPERM, EACCES and ENOSPC are the usual policies.
    """
    _check(_libc().unshare(flags), "unshare")


def setns(fd: int, flags: int) -> None:
    """Move the calling process into the namespace that a file descriptor stands for.

    Raises:
        OSError: Not permitted, or not a namespace of that kind.
    """
    _check(_libc().setns(fd, flags), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Mount a file system, or change a mount, in the caller's mount namespace.

    Raises:
        OSError: The kernel or a sandbox refuses.
    """
    arguments = [text.encode() or None for text in (source, target, kind)]
    _check(_libc().mount(*arguments, ctypes.c_ulong(flags), data.encode() or None), f"mount {kind or source} {target}")


def unmount(target: str) -> None:
    """Take the topmost mount on a path away, at once for new users of the path.

    Raises:
        OSError: Nothing is mounted there, or not permitted.
    """
    detach = 0x2
    _check(_libc().umount2(target.encode(), detach), f"umount {target}")


def effective_capabilities() -> int:
    """Return the calling process's effective capabilities as a bit mask."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return int(line.split()[1], 16)
    return 0


def drop_capabilities() -> None:
    """Give up every capability for good, so that no later exec, not even as user 0, brings one back.

    The bounding set is emptied first, as this itself needs a capability.

    Raises:
        OSError: The kernel refuses.
    """
    libc = _libc()
    for capability in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) != 0:
            break  # EINVAL: the last capability that this kernel knows lies behind us
    libc.prctl(_PR_CAP_AMBIENT, ctypes.c_ulong(_PR_CAP_AMBIENT_CLEAR_ALL), 0, 0, 0)
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(libc.capset(ctypes.byref(header), ctypes.byref(nothing)), "capset")
