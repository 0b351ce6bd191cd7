"""Runs the real terraform program for a drill: plan to a private file, read the plan, apply exactly that plan.

Plan files and plan JSON may hold secrets. They live in a private temporary folder (0700, files 0600), are deleted with
it, and only addresses and actions ever leave this module.

terraform runs as a child in its own session, so that Ctrl-C in the terminal reaches the drill and not a half-done
apply. Its pid and start time are told to the caller before it is waited for: whoever recovers a killed drill can wait
for the same child instead of racing it. State locks are never forced.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from firstfault.errors import FirstFaultError, InputError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Child", "ResourceChange", "SavedPlan", "Terraform", "TerraformError", "hcl", "wait_for_child"]

PLAN_TIMEOUT_S = 300
APPLY_TIMEOUT_S = 900
LOCK_TIMEOUT = "30s"
MESSAGE_LIMIT = 2000


class TerraformError(FirstFaultError):
    """terraform ended with an error; the message holds the end of what it said."""


class Child(msgspec.Struct, frozen=True):
    """A process that we started, told apart from a later one with the same number by its start time.

    Attributes:
        pid: Process id.
        started: Field 22 of /proc/PID/stat (clock ticks since boot), or 0 where there is no /proc.
    """

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Child:
        """Describe a running process."""
        return cls(pid, _start_time(pid) or 0)

    @property
    def alive(self) -> bool:
        """Whether that very process still runs."""
        started = _start_time(self.pid)
        return started is not None and started == self.started


def _start_time(pid: int) -> int | None:
    """Return the start time of a process that has not ended, else None."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def wait_for_child(child: Child, seconds: float) -> bool:
    """Wait for a child of a drill that was killed; then ask it to stop, as Ctrl-C does, and wait once more.

    Returns:
        True when it has ended. It is never killed outright: terraform writes its state when asked to stop.
    """
    for polite in (None, signal.SIGINT):
        if polite is not None and child.alive:
            os.kill(child.pid, polite)
        deadline = time.monotonic() + seconds
        while child.alive and time.monotonic() < deadline:
            time.sleep(0.1)
        if not child.alive:
            return True
    return False


class ResourceChange(msgspec.Struct, frozen=True, order=True):
    """One change of a plan.

    Attributes:
        address: Of the resource instance.
        actions: As terraform names them: "create", "update", "delete", "delete,create" ...
        type: Resource type.
    """

    address: str
    actions: str
    type: str = ""


class SavedPlan(msgspec.Struct, frozen=True):
    """A plan on disk and what it would change (no-op and read left out).

    Attributes:
        path: The plan file, 0600.
        changes: Sorted by address.
    """

    path: Path
    changes: list[ResourceChange]

    @property
    def summary(self) -> str:
        """The plan in terraform's own words: "0 to add, 0 to change, 8 to destroy"."""
        actions = [change.actions for change in self.changes]
        add = sum("create" in each for each in actions)
        change = sum(each == "update" for each in actions)
        destroy = sum("delete" in each for each in actions)
        return f"{add} to add, {change} to change, {destroy} to destroy"


class Terraform:
    """One root module, used with the program on the PATH. A context manager: it owns a private temporary folder.

    Args:
        root: Folder of the root module, initialised by its owner.
        var_files: The owner's variable files, relative to `root`.
        environment: Environment of the program; by default this process's.
        on_child: Told of each child before it is waited for (None: nobody is told); what it does is on disk then.
        private: Folder for plans and output, made 0700 and deleted at the end, or by whoever recovers after a kill.

    Raises:
        UnsupportedError: The program is not there.
        InputError: The folder is not an initialised root module.
    """

    def __init__(
        self,
        root: Path,
        *,
        var_files: list[str] | None = None,
        environment: Mapping[str, str] | None = None,
        on_child: Callable[[str, Child], None] | None = None,
        private: Path,
    ) -> None:
        program = shutil.which("terraform")
        if program is None:
            raise UnsupportedError(
                "the program `terraform` is not on the PATH",
                "install it, or use `--injector ec2` for a cluster that Terraform does not manage",
            )
        if not any(root.glob("*.tf")) and not any(root.glob("*.tf.json")):
            raise InputError(f"{root}: no Terraform configuration there", "name the root module with --terraform-dir")
        self.root = root
        self._program = program
        self._var_files = var_files or []
        self._environment = dict(os.environ if environment is None else environment)
        self._environment |= {"TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}
        self._on_child = on_child
        private.mkdir(mode=0o700, exist_ok=True)
        self._private = private

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self._private, ignore_errors=True)

    def _run(self, what: str, *arguments: str, timeout: float = PLAN_TIMEOUT_S) -> bytes:
        # Into files, not pipes: a pipe whose reader was killed would end an apply half-way, its state unwritten.
        token = secrets.token_hex(4)
        paths = [self._private / f"{token}.{name}" for name in ("out", "err")]
        with paths[0].open("xb") as out, paths[1].open("xb") as err:
            child = subprocess.Popen(
                [self._program, *arguments],
                cwd=self.root,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                umask=0o077,
            )
        try:
            if self._on_child:
                self._on_child(what, Child.of(child.pid))
            child.wait(timeout)
        except BaseException:
            # Whatever stopped us: terraform gets to write its state before anything else happens.
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
                child.wait()
            raise
        finally:
            output, errors = (path.read_bytes() for path in paths)
            for path in paths:
                path.unlink()
        if child.returncode:
            said = (errors or output).decode(errors="replace").strip()[-MESSAGE_LIMIT:]
            raise TerraformError(f"terraform {what} in {self.root} failed:\n{said}", self._advice(said))
        return output

    @staticmethod
    def _advice(said: str) -> str:
        if "state lock" in said:
            return (
                "somebody else holds the state lock; when it is gone, call again. It is not forced from here: "
                "look at who holds it before you run `terraform force-unlock`"
            )
        if "terraform init" in said:
            return "run `terraform init` there first"
        if "ExpiredToken" in said or "expired" in said:
            return "the credentials have lapsed: log in again, then `firstfault drill recover`"
        return ""

    def plan(self, variables: Mapping[str, Any]) -> SavedPlan:
        """Plan with these variables over the owner's own, into a private file.

        Raises:
            TerraformError: terraform refuses.
        """
        path = self._private / f"{secrets.token_hex(4)}.tfplan"
        files = [f"-var-file={name}" for name in self._var_files]
        # A string is taken as it is where the variable's type is string; everything else is an expression.
        values = [
            f"-var={name}={value if isinstance(value, str) else hcl(value)}"
            for name, value in sorted(variables.items())
        ]
        self._run(
            "plan", "plan", "-no-color", f"-lock-timeout={LOCK_TIMEOUT}", f"-out={path}", *files, *values
        )  # fmt: skip
        path.chmod(0o600)
        shown = json.loads(self._run("show", "show", "-json", "-no-color", str(path)))
        changes = [
            ResourceChange(each["address"], ",".join(each["change"]["actions"]), each.get("type", ""))
            for each in shown.get("resource_changes", [])
            if each.get("mode") == "managed" and each["change"]["actions"] not in (["no-op"], ["read"])
        ]
        return SavedPlan(path, sorted(changes))

    def apply(self, plan: SavedPlan) -> None:
        """Apply exactly that plan; terraform refuses when the state has moved since.

        Raises:
            TerraformError: terraform refuses or fails on the way; part of the plan may have been applied.
        """
        self._run(
            "apply", "apply", "-no-color", f"-lock-timeout={LOCK_TIMEOUT}", str(plan.path), timeout=APPLY_TIMEOUT_S
        )  # fmt: skip

    def outputs(self) -> dict[str, Any]:
        """Return the root module's outputs that are not sensitive, by name."""
        found = json.loads(self._run("output", "output", "-json", "-no-color"))
        return {name: each["value"] for name, each in found.items() if not each.get("sensitive")}


def hcl(value: Any) -> str:
    """Write a plain value as an HCL expression: JSON, in which no string is a template."""
    return json.dumps(value, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")
