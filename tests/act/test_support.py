"""Each policy that forbids a local world is named, with what to do about it."""

from __future__ import annotations

import errno

import pytest

from firstfault.act.support import HostPolicy, explain, require_linux
from firstfault.errors import ExitCode, UnsupportedError

UBUNTU = HostPolicy(settings={"kernel.apparmor_restrict_unprivileged_userns": "1"})
DOCKER = HostPolicy(seccomp=True, root=True, apparmor="docker-default")


@pytest.mark.parametrize(
    ("stage", "number", "policy", "words"),
    [
        ("uid_map", errno.EPERM, UBUNTU, "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("bridge", errno.EPERM, UBUNTU, "kernel.apparmor_restrict_unprivileged_userns=0"),
        (
            "unshare",
            errno.EPERM,
            HostPolicy(settings={"kernel.unprivileged_userns_clone": "0"}),
            "kernel.unprivileged_userns_clone=1",
        ),
        (
            "unshare",
            errno.ENOSPC,
            HostPolicy(settings={"user.max_user_namespaces": "0"}),
            "sysctl -w user.max_user_namespaces=10000",
        ),
        ("unshare", errno.EPERM, DOCKER, "--security-opt seccomp=unconfined"),
        ("mount", errno.EACCES, HostPolicy(apparmor="docker-default", root=True), "docker-default"),
        ("firewall", errno.EPROTONOSUPPORT, HostPolicy(), "nf_tables"),
        ("unshare", errno.EPERM, HostPolicy(root=True), "CAP_SYS_ADMIN"),
        ("unshare", errno.EPERM, HostPolicy(), "chroot"),
    ],
)
def test_policy_is_named(stage, number, policy, words):
    """The message holds the setting or the option to change, and that nothing was changed."""
    error = explain(stage, number, "Operation not permitted", policy)
    assert words in str(error)
    assert "Nothing was changed" in str(error)
    assert stage in str(error)
    assert error.exit_code == ExitCode.USAGE


@pytest.mark.parametrize("platform", ["darwin", "win32", "freebsd14"])
def test_other_systems_are_refused(platform):
    """The local world needs Linux, and the message says what works instead."""
    with pytest.raises(UnsupportedError, match="Linux virtual machine"):
        require_linux(platform)


def test_linux_is_accepted():
    """Linux is not refused for being Linux."""
    require_linux("linux")
