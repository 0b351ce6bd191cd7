"""A process of the world that has imported what programs need, and becomes them by forking.

Importing PyTorch costs a rank more than a second of processor time, and a drill starts six ranks. Programs that ship
with this package are therefore forked from a process that has imported it once. Everything else is as after an exec: a
process of its own in its node, session and environment, without capabilities, a child of the world's first process.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import sys
import time
import types
from pathlib import Path
from typing import Any, NoReturn

from firstfault.act import syscalls, wire

__all__ = ["Preloaded", "preload"]

_SECONDS = 120.0


class Preloaded:
    """The preloaded process as the world's first process sees it.

    Attributes:
        pid: Its id in the world.
    """

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid = pid
        self._sock = sock
        sock.settimeout(_SECONDS)

    def start(self, job: dict[str, Any], stdio: list[int], namespaces: dict[int, int]) -> int | None:
        """Fork a program; return its id, or None when the process is gone (out of memory, failed import).

        Args:
            job: `argv` (script and arguments), `env` and `cwd`.
            stdio: Descriptors that become standard input, output and error.
            namespaces: Descriptors of the node's namespaces, by clone flag.
        """
        try:
            message = {**job, "flags": list(namespaces)}
            wire.send(self._sock, message, [*stdio, *namespaces.values()])
            answer, _ = wire.receive(self._sock)
        except OSError:
            return None
        return None if answer is None else int(answer["pid"])


def preload(modules: list[str], env: dict[str, str], close: list[int]) -> Preloaded:
    """Fork the process that imports the modules; returns at once.

    Args:
        modules: Names to import.
        env: Environment under which they are imported; libraries read some of it only then.
        close: Descriptors of the caller that it must not hold.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return Preloaded(pid, ours)
    try:
        ours.close()
        for fd in close:
            os.close(fd)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        _serve(theirs, modules, env)
    finally:
        os._exit(1)


def _serve(sock: socket.socket, modules: list[str], env: dict[str, str]) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(nothing, fd)
    os.environ.clear()
    os.environ.update(env)
    for name in modules:
        importlib.import_module(name)
    while True:
        job, fds = wire.receive(sock)
        if job is None:
            return
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            # A child in between makes the program an orphan, which the world's first process adopts and waits for.
            program = os.fork()
            if program == 0:
                os.close(read)
                os.close(write)
                sock.close()
                _become(job, fds)
            os.write(write, str(program).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            pid = int(pipe.read())
        os.waitpid(child, 0)
        for fd in fds:
            os.close(fd)
        wire.send(sock, {"pid": pid})


def _become(job: dict[str, Any], fds: list[int]) -> NoReturn:
    """Turn the forked process into the program, and end with its exit code."""
    code = 127
    try:
        while os.getppid() != 1:
            time.sleep(0.0005)  # the process in between is about to end
        os.setsid()
        for flag, fd in zip(job["flags"], fds[3:], strict=True):
            syscalls.setns(fd, flag)
        os.chdir(job["cwd"])
        for target, fd in enumerate(fds[:3]):
            os.dup2(fd, target, inheritable=True)
        for fd in fds:
            os.close(fd)
        syscalls.drop_capabilities()
        os.environ.clear()
        os.environ.update(job["env"])
        code = _run(job["argv"])
    finally:
        os._exit(code)


def _run(argv: list[str]) -> int:
    """Run a script as `python -u SCRIPT ARGS` would, to the end of its exit handlers."""
    main = types.ModuleType("__main__")
    main.__file__ = argv[0]
    sys.modules["__main__"] = main
    sys.argv = list(argv)
    sys.path[0] = str(Path(argv[0]).parent)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
    code = 0
    try:
        exec(compile(Path(argv[0]).read_bytes(), argv[0], "exec"), main.__dict__)  # noqa: S102 - our own program
    except SystemExit as end:
        code = _exit_code(end.code)
    except BaseException as error:  # noqa: BLE001 - the edge of a process: what Python itself does with it
        # Without the frame of this function, as a fresh interpreter would show it. Programs may have set the hook.
        error = error.with_traceback(error.__traceback__.tb_next if error.__traceback__ else None)
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    _finish()
    return code


def _exit_code(value: object) -> int:
    if value is None or isinstance(value, int):
        return int(value or 0)
    print(value, file=sys.stderr)
    return 1


def _finish() -> None:
    """Do what an interpreter does at its end: wait for threads, run exit handlers, flush."""
    import atexit  # noqa: PLC0415 - only here
    import threading  # noqa: PLC0415

    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - what Py_Finalize calls
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
