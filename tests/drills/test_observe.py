"""What a drill collects beside the logs of its ranks."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from firstfault.drills import observe

# More than any pid (PID_MAX_LIMIT of the kernel is 4,194,304): a process that is surely not in this test's namespace.
SOMEBODY_ELSE = 4_194_400


@pytest.mark.parametrize("first_namespace", [True, False])
def test_faults_of_other_processes_are_not_the_drills(monkeypatch, tmp_path, first_namespace):
    """The kernel's log is the whole machine's; where pids cannot be compared (in a container) all of it is kept."""
    ours, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kernel.setblocking(False)
    monkeypatch.setattr(observe, "_open_kernel_log", lambda: os.dup(kernel.fileno()))
    namespace = str(Path("/proc/self/ns/pid").readlink()) if first_namespace else "pid:[1]"
    monkeypatch.setattr(observe, "_FIRST_PID_NAMESPACE", namespace)
    monkeypatch.setattr(observe, "_LOOK_EVERY_S", 0.0)
    process = SimpleNamespace(env={"FIRSTFAULT_BACKEND": "nccl"})
    net = SimpleNamespace(footprint=SimpleNamespace(init=os.getpid()))
    observer = observe.JobObserver(net, {}, [process])
    observer.look(tmp_path, 1e9)
    for pid in (SOMEBODY_ELSE, os.getpid()):
        ours.send(f"4,1,2500000,-;NVRM: Xid (PCI:0000:06:00): 31, pid={pid}, name=python3, MMU Fault\n".encode())
    ours.send(b"4,2,2600000,-;NVRM: GPU at PCI:0000:00:06: GPU-3cf61bf6\n")
    ours.send(b"4,3,2600000,-;eth0: link becomes ready\n")
    observer.finish(tmp_path)
    ours.close()
    kernel.close()
    text = (tmp_path / "kernel.log").read_text()
    assert f"pid={os.getpid()}" in text
    assert "GPU at PCI" in text
    assert "eth0" not in text
    assert (f"pid={SOMEBODY_ELSE}" in text) is not first_namespace
