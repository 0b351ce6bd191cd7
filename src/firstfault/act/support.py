"""Why this machine refuses a local world, in words that name the policy and what to do about it.

There is no separate probe: a world is started by using every capability that it needs (user map, mounts, links,
nf_tables), and the step that fails is explained here. On some systems `unshare` succeeds and the first use fails.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from firstfault.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HostPolicy", "explain", "require_linux"]

_APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
_CLONE = "kernel.unprivileged_userns_clone"
_LIMITS = ("user.max_user_namespaces", "user.max_net_namespaces", "user.max_mnt_namespaces", "user.max_pid_namespaces")
_CONTAINER = (
    "in Docker or Podman: `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`, or as root "
    "`--cap-add SYS_ADMIN --cap-add NET_ADMIN`; in Kubernetes: a Pod with seccompProfile Unconfined and AppArmor "
    "Unconfined, or privileged; or run it on the host or in a virtual machine"
)


class HostPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine says about itself, as far as an ordinary user may read it.

    Attributes:
        settings: Kernel settings by their sysctl name; those that do not exist are left out.
        seccomp: True when a system-call filter is on this process.
        apparmor: Name of the AppArmor profile of this process; "" or "unconfined" when there is none.
        root: Whether the user is root.
    """

    settings: dict[str, str] = {}
    seccomp: bool = False
    apparmor: str = ""
    root: bool = False

    @classmethod
    def read(cls) -> HostPolicy:
        """Read it from /proc."""
        settings = {}
        for name in (_APPARMOR, _CLONE, *_LIMITS):
            if value := _read(f"/proc/sys/{name.replace('.', '/')}"):
                settings[name] = value
        status = _read("/proc/self/status")
        apparmor = _read("/proc/self/attr/apparmor/current").removesuffix(" (enforce)")
        return cls(settings=settings, seccomp="\nSeccomp:\t2" in status, apparmor=apparmor, root=os.geteuid() == 0)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def require_linux(platform: str = sys.platform) -> None:
    """Refuse on systems without network namespaces.

    Raises:
        UnsupportedError: Not Linux.
    """
    if platform != "linux":
        raise UnsupportedError(
            f"the local world is made of Linux network namespaces; this system is {platform!r}. Nothing was changed.",
            "run the drill in a Linux virtual machine, WSL 2 or a Linux container; `firstfault triage` works here",
        )


def explain(stage: str, number: int, detail: str, policy: HostPolicy) -> UnsupportedError:
    """Say which policy refused a step of the world's set-up.

    Args:
        stage: The step: unshare, setgroups, gid_map, uid_map, mount, bridge, node, veth, firewall.
        number: The kernel's errno.
        detail: The kernel's words.
        policy: What the machine says about itself.
    """
    reason, todo = next(answer for rule in _RULES if (answer := rule(number, policy)))
    who = "root" if policy.root else "this user"
    return UnsupportedError(
        f"this machine does not let {who} make a local world: {stage}: {detail}. {reason} Nothing was changed.", todo
    )


_Answer = tuple[str, str]


def _limits(number: int, policy: HostPolicy) -> _Answer | None:
    zero = [name for name in _LIMITS if policy.settings.get(name) == "0"]
    if number != errno.ENOSPC and not zero:
        return None
    names = zero or ["user.max_user_namespaces"]
    values = ", ".join(f"{name}={policy.settings.get(name, 'unknown')}" for name in names)
    todo = " && ".join(f"sudo sysctl -w {name}=10000" for name in names)
    return f"The limit on namespaces is reached ({values}).", todo


def _switched_off(_: int, policy: HostPolicy) -> _Answer | None:
    if policy.settings.get(_CLONE) != "0" or policy.root:
        return None
    return f"{_CLONE}=0 forbids user namespaces to ordinary users.", f"sudo sysctl -w {_CLONE}=1, or run as root"


def _apparmor(_: int, policy: HostPolicy) -> _Answer | None:
    if policy.settings.get(_APPARMOR) != "1" or policy.root or policy.seccomp:
        return None
    program = os.path.realpath(sys.executable)
    reason = f"AppArmor denies capabilities in user namespaces ({_APPARMOR}=1, the default of Ubuntu since 24.04)."
    todo = f"sudo sysctl -w {_APPARMOR}=0 (until the next boot), or an AppArmor profile with `userns,` for {program}"
    return reason, f"{todo}, or run as root"


def _no_feature(number: int, _: HostPolicy) -> _Answer | None:
    if number not in {errno.EPROTONOSUPPORT, errno.EOPNOTSUPP, errno.ENOENT, errno.EAFNOSUPPORT}:
        return None
    reason = (
        "The kernel lacks something that the world needs (network namespaces, bridge, veth, nf_tables with conntrack), "
        "or may not load its module."
    )
    todo = (
        "as root: `modprobe -a bridge veth nf_tables nft_ct nft_reject_inet`; sandboxes such as gVisor have none of "
        "them: use a virtual machine"
    )
    return reason, todo


def _sandbox(_: int, policy: HostPolicy) -> _Answer | None:
    if policy.seccomp:
        return "A system-call filter (seccomp) of the container or sandbox forbids it.", _CONTAINER
    if policy.apparmor not in {"", "unconfined"}:
        return f"The AppArmor profile {policy.apparmor!r} of the container or sandbox forbids it.", _CONTAINER
    return None


def _last_word(_: int, policy: HostPolicy) -> _Answer:
    if policy.root:
        return "Root lacks CAP_SYS_ADMIN or CAP_NET_ADMIN here, and may not make a user namespace either.", _CONTAINER
    return (
        "A security policy of this machine forbids it (in a chroot, user namespaces are never allowed).",
        "run it as root, outside a chroot, or in a virtual machine",
    )


# The first that fits answers; policies that are certain come before guesses.
_RULES: tuple[Callable[[int, HostPolicy], _Answer | None], ...] = (
    _limits,
    _switched_off,
    _apparmor,
    _no_feature,
    _sandbox,
    _last_word,
)
